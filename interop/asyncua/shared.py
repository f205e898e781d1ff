"""What the asyncua client and server share: the command line, the JSON lines and the fixture's names."""

import argparse
import json
import logging

NAMESPACE = "urn:trapkey:interop"
LINE, TICKS, SETPOINT, ADD, MANY = "Line", "Line.Ticks", "Line.Setpoint", "Line.Add", "Line.Many"


def quiet() -> None:
    """The libraries log what the JSON lines already say."""
    logging.basicConfig(level=logging.CRITICAL)


def report(step: str, ok: bool, detail: str = "", status: int | None = None) -> bool:
    line = {"step": step, "ok": ok, "detail": detail}
    if status is not None:
        line["status"] = f"0x{status:08X}"
    print(json.dumps(line), flush=True)
    return ok


def client_options() -> argparse.Namespace:
    options = argparse.ArgumentParser()
    options.add_argument("--url", required=True)
    options.add_argument("--policy", default="None")
    options.add_argument("--mode", default="None")
    options.add_argument("--cert")
    options.add_argument("--key")
    options.add_argument("--trust")
    options.add_argument("--anonymous", action="store_true")
    options.add_argument("--user")
    options.add_argument("--x509")
    options.add_argument("--jwt")
    options.add_argument("--renew")
    options.add_argument("--legacy", action="store_true")
    options.add_argument("--clear", action="store_true")
    options.add_argument("--steps", default="connect,browse,read,write,call,subscribe,reconnect")
    options.add_argument("--changes", type=int, default=60)
    return options.parse_args()


def server_options() -> argparse.Namespace:
    options = argparse.ArgumentParser()
    options.add_argument("--port", type=int, required=True)
    options.add_argument("--cert", required=True)
    options.add_argument("--key", required=True)
    options.add_argument("--trust", required=True)
    options.add_argument("--user", required=True)
    options.add_argument("--history", action="store_true")
    options.add_argument("--many", action="store_true")
    options.add_argument("--register-only")
    options.add_argument("--ticks", type=int, default=0)
    return options.parse_args()
