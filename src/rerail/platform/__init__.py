"""The machine and its formats, each known once: /proc, ELF, Mach-O, libc, cgroups, command lines,
installed packages, patterns on text, deadlines. A toolbox: its modules are its door.
"""
