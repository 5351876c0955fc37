"""The client for the few requests that rerail makes, to addresses that the user named.

In: whether the address is on this machine. Out: an opener of urllib's, which knows certificates and
proxies. Promises: redirects are not followed, so that nothing goes to a host that was not named;
what is meant for this machine never goes out to a proxy.
"""

from __future__ import annotations

import http.client
import ipaddress
import urllib.request
from typing import IO


def client_without_redirects(*, is_here: bool) -> urllib.request.OpenerDirector:
    """An answer that names another address is an HTTPError with its status."""
    return urllib.request.build_opener(
        urllib.request.ProxyHandler({} if is_here else None), _NoRedirects
    )


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> None:
        return None


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"
