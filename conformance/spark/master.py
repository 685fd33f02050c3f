"""Reach a standalone Spark master (`--master spark://HOST:PORT`) before a session is opened.

`prepare_session` calls this first, since Spark itself would try to reach an absent master for a minute.
"""

import re
import socket

_TIMEOUT_S = 4.0
"""For all hosts of a master together."""


class MasterUnreachable(RuntimeError):
    """No host of a standalone master accepts a connection; the text names them."""


def driver_address(master: str) -> str:
    """Return the address of this machine at which Spark's executors reach the driver, this process.

    For a URL such as `spark://one:7077,two:7077` it is the local address of the first connection that one of the hosts accepts;
    they are tried in their order. For any other master, such as `local[*]`, it is 127.0.0.1, and nothing is connected. Blocks for
    some four seconds at most, besides the resolution of names; longer where a name has several addresses. Raises
    MasterUnreachable where no host accepts.
    """
    if not master.startswith("spark://"):
        return "127.0.0.1"
    hosts = master.removeprefix("spark://").split(",")
    reasons = []
    for host in hosts:
        parts = re.fullmatch(r"\[?(?P<name>[^\]]+)\]?:(?P<port>\d{1,5})", host)
        if parts is None:
            reasons.append(f"{host} is not HOST:PORT")
            continue
        try:
            with socket.create_connection((parts["name"], int(parts["port"])), _TIMEOUT_S / len(hosts)) as connection:
                return str(connection.getsockname()[0])
        except (OSError, OverflowError) as error:
            reasons.append(f"{host}: {error}")
    raise MasterUnreachable(f"--master {master} cannot be reached: {'; '.join(reasons)}")
