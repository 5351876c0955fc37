from lowlight.cli import main

main()
