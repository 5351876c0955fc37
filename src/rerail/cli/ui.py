"""`rerail ui`: Show the runs in the browser, on this machine alone.

In: a store. Out: an address to open; pages until Ctrl-C.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from rerail.cli._numbers import WholeRange
from rerail.cli._options import home_option, json_option, store_to_read
from rerail.cli._telling import echo

if TYPE_CHECKING:
    from rerail.ui import UiSettings

DEFAULT_PORT = 7373


@click.command("ui", epilog="Example: rerail ui --open")
@click.option(
    "--port",
    type=WholeRange(0, 65535),
    metavar="PORT",
    help=f"Where to listen; 0 is any free port [default: {DEFAULT_PORT}, else any].",
)
@click.option(
    "--host",
    default="127.0.0.1",
    metavar="ADDRESS",
    help="Listen beyond this machine: whoever has the address reads every run.",
)
@click.option("--open", "opens", is_flag=True, help="Open it in the browser.")
@home_option
@json_option
def command(port: int | None, host: str, opens: bool, home: Path | None, as_json: bool) -> int:
    """Show the runs on record in the browser, live ones as they go on.

    The pages are only for reading, and only who has the printed address can open them. Secrets are
    masked as in `rerail report`; commands, paths, environments and output are not.
    """
    from rerail.errors import UsageError
    from rerail.platform.low_priority import make_room_for_others

    try:
        from rerail.ui import UiSettings, serve
    except ImportError as error:
        raise UsageError(
            f"`rerail ui` needs packages that are not installed ({error.name})",
            "Install them with: pip install 'rerail[ui]'",
        ) from None

    def announce(address: str, settings: UiSettings) -> None:
        _tell(address, settings, as_json)
        make_room_for_others()

    store = store_to_read(home)
    wanted = DEFAULT_PORT if port is None else port
    try:
        serve(UiSettings(store.home, host, wanted), announce, opens=opens)
    except UsageError:
        if port is not None:
            raise
        # The usual port is taken.
        serve(UiSettings(store.home, host, 0), announce, opens=opens)
    return 0


def _tell(address: str, settings: UiSettings, as_json: bool) -> None:
    from rerail.cli._printing import print_json
    from rerail.ui import plain_address_of

    if as_json:
        document = {"schema": 1, "address": address, "home": str(settings.home)}
        plain = {"plain_address": plain_address_of(settings), "token": settings.token}
        print_json({**document, **plain})
        return
    echo(f"The runs in {settings.home} are at\n\n  {address}\n")
    if not settings.home.is_dir():
        echo("There are none yet: `rerail run -- python train.py` makes the first.")
    if settings.is_local:
        echo(
            "Only this machine can open it. Ctrl-C ends it.\n"
            f"If the browser does not find that name, open {plain_address_of(settings)} and type\n"
            "the token (what follows `token=`) as the password, with any user name."
        )
    else:
        echo(
            f"Listening on {settings.host}: everybody on the network who has this address can\n"
            "read the commands, paths, environments and output of every run here, and what is\n"
            "sent is not encrypted. Safer is an SSH tunnel to a `rerail ui` on loopback:\n"
            f"  ssh -L {settings.port}:127.0.0.1:{settings.port} THIS-MACHINE\n"
            "Ctrl-C ends it."
        )
