"""Decodes requests as asyncua's server does and writes them again: `decoder` of interop/README.md."""

import dataclasses
import logging
import struct
import sys

from asyncua import ua
from asyncua.common.utils import Buffer
from asyncua.ua.ua_binary import nodeid_from_binary, nodeid_to_binary, struct_from_binary, struct_to_binary, variant_to_binary

REFUSED = 0xFFFFFFFF
ENDING = "Request_Encoding_DefaultBinary"


def services() -> dict:
    """What is behind the header of each request: the type its server reads there."""
    known = {}
    for name, number in vars(ua.ObjectIds).items():
        parameters = getattr(ua, name.removesuffix(ENDING) + "Parameters", None) if name.endswith(ENDING) else None
        if dataclasses.is_dataclass(parameters):
            known[ua.NodeId(number)] = parameters
    return known


def sayable(value):
    """What asyncua reads but cannot write, such as a matrix that it has filled up, as the null it can."""
    if isinstance(value, ua.Variant):
        try:
            variant_to_binary(value)
            return value
        except Exception:
            return ua.Variant()
    if isinstance(value, list):
        return [sayable(one) for one in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, ua.NodeId):
        for field in dataclasses.fields(value):
            before = getattr(value, field.name)
            after = sayable(before)
            if after is not before:
                object.__setattr__(value, field.name, after)
    return value


def decoded(known: dict, body: bytes) -> bytes | None:
    """The request in asyncua's own words; nothing where it would answer with a fault."""
    try:
        data = Buffer(body)
        kind = nodeid_from_binary(data)
        header = struct_from_binary(ua.RequestHeader, data)
        parameters = struct_from_binary(known[kind], data)
    except Exception:
        return None
    return nodeid_to_binary(kind) + struct_to_binary(header) + struct_to_binary(sayable(parameters))


def main() -> None:
    logging.disable(logging.CRITICAL)
    known = services()
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    while len(head := source.read(4)) == 4:
        again = decoded(known, source.read(struct.unpack("<I", head)[0]))
        sink.write(struct.pack("<I", REFUSED) if again is None else struct.pack("<I", len(again)) + again)
        sink.flush()


main()
