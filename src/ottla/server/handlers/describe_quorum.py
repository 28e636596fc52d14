"""DescribeQuorum (55), versions 0 to 2.

Returns the state of the metadata quorum: leader, epoch, high watermark, and the progress of each voter and
observer. Only the leader can answer. v1 adds the times of the last fetch; v2 directory ids, endpoints and
error messages, which are empty, not null, without an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.server.metadata.quorum_status import is_about_quorum, unknown_partitions
from ottla.server.net.dispatch import Api, RequestContext
from ottla.server.net.long_requests import Steps
from ottla.wire import uuid
from ottla.wire.errors import KafkaError
from ottla.wire.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse

if TYPE_CHECKING:
    from ottla.server.parts import HasQuorum

KEY = 55


def handle(
    parts: HasQuorum, request: DescribeQuorumRequest, context: RequestContext
) -> DescribeQuorumResponse | Steps[DescribeQuorumResponse]:
    try:
        response = parts.quorum.describe_quorum(request)
    except KafkaError as error:
        return DescribeQuorumResponse(error_code=error.code, error_message=error.message)
    if not is_about_quorum(request):
        return unknown_partitions(request)
    if context.version < 2:
        _leave_out_what_is_newer(response)
    return response


def _leave_out_what_is_newer(response: DescribeQuorumResponse) -> None:
    response.nodes = []
    for topic in response.topics:
        for partition in topic.partitions:
            for replica in partition.current_voters + partition.observers:
                replica.replica_directory_id = uuid.ZERO


API = Api(KEY, handle)
