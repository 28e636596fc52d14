"""The bounded form of a decoder matches the plain one, and limits memory."""

from __future__ import annotations

import pytest
from tests.unit.wire.instances import CLASS_VERSIONS, Instances

from ottla.wire import codec
from ottla.wire.decoder import ROOM_BYTES
from ottla.wire.errors import MalformedMessage
from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.primitives import TAGS_MAX


def test_both_forms_decode_every_version_equally() -> None:
    for cls, version in CLASS_VERSIONS:
        encoded = codec.encode(Instances(("bounded", cls.NAME, version)).message(cls, version), version)
        plain = codec.decoder(cls, version)(encoded, 0)
        assert codec.decoder(cls, version, bounded=True)(encoded, 0) == plain, (cls.NAME, version)


def _metadata_request(topics: int) -> bytes:
    named = MetadataRequest.MetadataRequestTopic(name="a")
    return codec.encode(MetadataRequest(topics=[named] * topics), 9)


def test_the_memory_limit_is_exact() -> None:
    decode = codec.decoder(MetadataRequest, 9, bounded=True)
    few = ROOM_BYTES // 300
    message, _ = decode(_metadata_request(few), 0)
    assert len(message.topics or ()) == few
    with pytest.raises(MalformedMessage, match="more elements than the memory limit allows"):
        decode(_metadata_request(ROOM_BYTES // 100), 0)


@pytest.mark.parametrize("bounded", [False, True])
def test_a_struct_has_a_thousand_unknown_tagged_fields_at_most(bounded: bool) -> None:
    decode = codec.decoder(MetadataRequest, 9, bounded=bounded)
    most = MetadataRequest(topics=None, unknown_tagged_fields=dict.fromkeys(range(TAGS_MAX), b""))
    assert decode(codec.encode(most, 9), 0)[0] == most
    more = MetadataRequest(topics=None, unknown_tagged_fields=dict.fromkeys(range(TAGS_MAX + 1), b""))
    with pytest.raises(MalformedMessage, match="1001 tagged fields"):
        decode(codec.encode(more, 9), 0)
