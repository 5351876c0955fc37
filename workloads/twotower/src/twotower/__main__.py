from twotower.cli import main

main()
