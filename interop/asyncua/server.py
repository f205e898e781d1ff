"""The asyncua server: the fixture of interop/README.md, to be read by our client and by the other stacks."""

import asyncio
import dataclasses
import sys
from datetime import datetime, timezone
from pathlib import Path

from asyncua import Server, ua, uamethod
from asyncua.common.utils import ServiceError
from asyncua.crypto.permission_rules import User, UserRole
from asyncua.server.history import HistoryDict
from asyncua.server.uaprocessor import UaProcessor
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from shared import ADD, LINE, MANY, NAMESPACE, SETPOINT, TICKS, quiet, report, server_options


class Users:
    """Anonymous, one user with a password, and the trusted certificates."""

    def __init__(self, user: str, trusted: list[bytes]) -> None:
        self.name, self.password = user.split(":", 1)
        self.trusted = trusted

    def get_user(self, _server, username=None, password=None, certificate=None):
        # The certificate is that of the token or, without one, that of the application, if it shows one.
        if certificate and certificate not in self.trusted:
            return None
        if username is None or (username == self.name and password == self.password):
            return User(role=UserRole.User, name=username)
        return None


class Stamped(HistoryDict):
    """The library's history in memory; values that a client wrote without a source timestamp get one."""

    async def save_node_value(self, node_id: ua.NodeId, datavalue: ua.DataValue) -> None:
        if datavalue.SourceTimestamp is None:
            datavalue = dataclasses.replace(datavalue, SourceTimestamp=datetime.now(timezone.utc))
        await super().save_node_value(node_id, datavalue)


@uamethod
def add(_parent, left: float, right: float) -> float:
    return left + right


async def build(options) -> tuple[Server, object, object]:
    trusted = [Path(path).read_bytes() for path in options.trust.split(",")]
    server = Server(user_manager=Users(options.user, trusted))
    await server.init()
    server.set_endpoint(f"opc.tcp://127.0.0.1:{options.port}")
    await server.set_application_uri(f"urn:trapkey:interop:{Path(options.cert).stem}")
    server.set_security_policy(
        [ua.SecurityPolicyType.NoSecurity]
        + [
            ua.SecurityPolicyType[f"{policy}_{mode}"]
            for policy in ("Basic256Sha256", "Aes128Sha256RsaOaep", "Aes256Sha256RsaPss")
            for mode in ("Sign", "SignAndEncrypt")
        ]
    )
    server.set_identity_tokens([ua.AnonymousIdentityToken, ua.UserNameIdentityToken, ua.X509IdentityToken])
    await server.load_certificate(options.cert)
    await server.load_private_key(options.key)

    async def only_trusted(certificate: x509.Certificate, _application) -> None:
        if certificate.public_bytes(Encoding.DER) not in trusted:
            raise ua.uaerrors.BadCertificateUntrusted

    server.set_certificate_validator(only_trusted)

    index = await server.register_namespace(NAMESPACE)
    line = await server.nodes.objects.add_object(ua.NodeId(LINE, index), ua.QualifiedName("Line", index))
    ticks = await line.add_variable(
        ua.NodeId(TICKS, index), ua.QualifiedName("Ticks", index), ua.Variant(0, ua.VariantType.UInt32)
    )
    setpoint = await line.add_variable(ua.NodeId(SETPOINT, index), ua.QualifiedName("Setpoint", index), 20.0)
    await setpoint.set_writable()
    number = [ua.VariantType.Double]
    await line.add_method(ua.NodeId(ADD, index), ua.QualifiedName("Add", index), add, number * 2, number)
    if options.many:
        many = await line.add_folder(ua.NodeId(MANY, index), ua.QualifiedName("Many", index))
        for number in range(1000):
            name = ua.QualifiedName(f"Value{number:04}", index)
            await many.add_variable(ua.NodeId(10_000 + number, index), name, ua.Variant(number, ua.VariantType.UInt32))
    return server, ticks, setpoint


def register_only(status: str) -> None:
    """Makes it a discovery server from before RegisterServer2, which it answers with this."""
    known, newer = UaProcessor._process_message, ua.NodeId(ua.ObjectIds.RegisterServer2Request_Encoding_DefaultBinary)

    async def process(self, typeid, *rest):
        if typeid == newer:
            raise ServiceError(getattr(ua.StatusCodes, status))
        return await known(self, typeid, *rest)

    UaProcessor._process_message = process


async def past_events(server: Server, *sources) -> None:
    """Three events of each source, in turns, which the Server object keeps."""
    generators = []
    for source in sources:
        generators.append(await server.get_event_generator(emitting_node=server.nodes.server))
        generators[-1].event.SourceNode = source.nodeid
    await server.historize_node_event(server.nodes.server, period=None, count=1000)
    names = [(await source.read_browse_name()).Name for source in sources]
    for number in range(3):
        for generator, name in zip(generators, names, strict=True):
            await generator.trigger(message=f"{name} {number}")


async def main() -> int:
    quiet()
    options = server_options()
    if options.register_only:
        register_only(options.register_only)
    server, ticks, setpoint = await build(options)
    line = await setpoint.get_parent()
    async with server:
        if options.history:
            server.iserver.history_manager.set_storage(Stamped())
            await server.historize_node_data_change(setpoint, period=None, count=1000)
            await past_events(server, line, setpoint)
        report("listening", True)
        stop = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
        count = options.ticks
        while not stop.done():
            await asyncio.sleep(0.02)
            count += 1
            await ticks.write_value(ua.Variant(count, ua.VariantType.UInt32))
    return 0


sys.exit(asyncio.run(main()))
