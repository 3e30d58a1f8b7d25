"""Certificates of a cluster that lives on one machine: a private authority and what it signed."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_VALID = timedelta(days=30)
# Clocks of a container and its host may differ a little.
_SLACK = timedelta(minutes=5)


class Certificates(NamedTuple):
    """Files in PEM: the authority, the certificate that all sides show, and its private key."""

    ca: Path
    cert: Path
    key: Path


def write_certificates(folder: Path) -> Certificates:
    """An authority and one certificate for 127.0.0.1, valid for 30 days, with its owner's key.

    The authority's own key is never written, so that nothing else can be signed with it.
    """
    ca_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    ca = _authority(ca_key)
    cert = _node(ca.subject, key).sign(ca_key, hashes.SHA256())
    files = Certificates(folder / "ca.pem", folder / "cert.pem", folder / "key.pem")
    pem = serialization.Encoding.PEM
    _write(files.ca, ca.public_bytes(pem), 0o644)
    _write(files.cert, cert.public_bytes(pem), 0o644)
    unencrypted = serialization.NoEncryption()
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, unencrypted)
    _write(files.key, private, 0o600)
    return files


def _authority(key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    name = _name("ooc-graph local authority")
    begun = _begin(name, name, key.public_key())
    begun = begun.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    return begun.sign(key, hashes.SHA256())


def _node(issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    """Scheduler, workers and clients show the same one: whoever holds its key may join."""
    hosts = [x509.IPAddress(ip_address("127.0.0.1")), x509.DNSName("localhost")]
    usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    return (
        _begin(_name("ooc-graph local cluster"), issuer, key.public_key())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(hosts), critical=False)
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
    )


def _begin(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SLACK)
        .not_valid_after(now + _VALID)
    )


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _write(path: Path, content: bytes, mode: int) -> None:
    """Never readable by others, not even before the first byte is in it."""
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
