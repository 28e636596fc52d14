"""Metadata (3), versions 0 to 13.

Returns the brokers and the partitions with their leaders: of the named topics (or, from v12, those given by
id), of all if the list is null (v0: empty). A topic that does not exist is created if the client allows it
and `auto.create.topics.enable` is set; the response is still UNKNOWN_TOPIC_OR_PARTITION, and the client
retries. Any live broker is named as controller: each forwards requests to it. v0 omits replicas on dead
brokers and returns REPLICA_NOT_AVAILABLE; v4 `allow_auto_topic_creation`; v5 offline replicas; v6
LISTENER_NOT_FOUND if the leader has no endpoint on this listener (before: LEADER_NOT_AVAILABLE); v7 leader
epochs; v8 authorized operations (the cluster's up to v10); v10 topic ids in the response; v12 topic ids in
the request; v13 an error code for the whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ottla.controller.topic_names import is_internal, why_invalid
from ottla.server.handlers.auto_create import CreationParts, create_in_background
from ottla.server.handlers.common import (
    CLUSTER_OPERATIONS,
    NO_LEADER,
    TOPIC_OPERATIONS,
    Reach,
    random_alive_broker,
)
from ottla.server.net.dispatch import Api, RequestContext
from ottla.server.net.long_requests import Steps
from ottla.server.parts import HasClusterId, HasImage, HasRandom
from ottla.wire import uuid
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse

if TYPE_CHECKING:
    from ottla.controller.image import ClusterImage
    from ottla.controller.registrations import PartitionRegistration, Topic

KEY = 3

_FIRST_VERSION_WITH_IDS = 12

_Topic = MetadataResponse.MetadataResponseTopic
_Partition = MetadataResponse.MetadataResponsePartition


class Parts(CreationParts, HasClusterId, HasImage, HasRandom, Protocol):
    """The parts of a node that Metadata needs."""


def handle(parts: Parts, request: MetadataRequest, context: RequestContext) -> Steps[MetadataResponse]:
    version = context.version
    asked = request.topics
    if asked is not None and version < _FIRST_VERSION_WITH_IDS:
        if any(topic.name is None or topic.topic_id != uuid.ZERO for topic in asked):
            return _refused(request)
        if version == 0 and not asked:
            asked = None
    reach = Reach(parts.image, context.listener)
    if asked is None:
        topics = []
        for topic in list(parts.image.topics.values()):
            topics.append((yield from _described(topic, reach, version)))
    else:
        topics = yield from _asked(parts, request, asked, reach, version)
    response = MetadataResponse(
        brokers=_brokers(parts.image, context.listener),
        cluster_id=parts.cluster_id,
        controller_id=random_alive_broker(parts),
        topics=topics,
    )
    if version >= 8:
        if version <= 10 and request.include_cluster_authorized_operations:
            response.cluster_authorized_operations = CLUSTER_OPERATIONS
        if request.include_topic_authorized_operations:
            for found in topics:
                if found.error_code != ErrorCode.UNKNOWN_TOPIC_ID:
                    found.topic_authorized_operations = TOPIC_OPERATIONS
                yield
    return response


def _refused(request: MetadataRequest) -> MetadataResponse:
    """The response to topic ids, or a topic without a name, in a version without ids."""
    code = ErrorCode.INVALID_REQUEST
    return MetadataResponse(
        error_code=code,
        topics=[
            _Topic(error_code=code, name=topic.name or "", topic_id=topic.topic_id)
            for topic in request.topics or ()
        ],
    )


def _brokers(image: ClusterImage, listener: str) -> list[MetadataResponse.MetadataResponseBroker]:
    found = []
    for registration in image.brokers.values():
        endpoint = None if registration.fenced else registration.endpoint(listener)
        if endpoint is not None:
            found.append(
                MetadataResponse.MetadataResponseBroker(
                    node_id=registration.id, host=endpoint.host, port=endpoint.port, rack=registration.rack
                )
            )
    return found


def _asked(
    parts: Parts,
    request: MetadataRequest,
    asked: list[MetadataRequest.MetadataRequestTopic],
    reach: Reach,
    version: int,
) -> Steps[list[_Topic]]:
    """The topics of the request, each once. If one is given by id, only ids count, as in Kafka."""
    ids = {topic.topic_id: None for topic in asked if topic.topic_id != uuid.ZERO}
    known: list[Topic] = []
    if ids:
        unknown = []
        for topic_id in ids:
            topic = parts.image.topics.get(topic_id)
            if topic is None:
                unknown.append(_Topic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id))
            else:
                known.append(topic)
            yield
        for topic in known:
            unknown.append((yield from _described(topic, reach, version)))
        return unknown
    found = []
    missing = []
    for name in dict.fromkeys(topic.name for topic in asked if topic.name is not None):
        topic = parts.image.topics_by_name.get(name)
        if topic is not None:
            found.append((yield from _described(topic, reach, version)))
        else:
            missing.append(name)
        yield
    if missing:
        found += yield from _missing(parts, missing, may_create=request.allow_auto_topic_creation)
    return found


def _missing(parts: CreationParts, names: list[str], *, may_create: bool) -> Steps[list[_Topic]]:
    """The errors of topics that do not exist; valid names are created if that is allowed."""
    answers = []
    creatable = []
    for name in names:
        if why_invalid(name) is None:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            creatable.append(name)
        else:
            code = ErrorCode.INVALID_TOPIC_EXCEPTION
        answers.append(_Topic(error_code=code, name=name, is_internal=is_internal(name)))
        yield
    if creatable and may_create and parts.config.bool_of("auto.create.topics.enable"):
        create_in_background(parts, creatable)
    return answers


def _described(topic: Topic, reach: Reach, version: int) -> Steps[_Topic]:
    found = _Topic(name=topic.name, topic_id=topic.id, is_internal=is_internal(topic.name))
    for index, partition in list(topic.partitions.items()):
        found.partitions.append(_partition(index, partition, reach, version))
        yield
    return found


def _partition(index: int, partition: PartitionRegistration, reach: Reach, version: int) -> _Partition:
    replicas, isr = list(partition.replicas), list(partition.isr)
    if version == 0:
        replicas = [replica for replica in replicas if reach.is_alive(replica)]
        isr = [replica for replica in isr if reach.is_alive(replica)]
    leader_id = partition.leader
    code = ErrorCode.NONE
    if leader_id not in reach.with_listener:
        is_gone = leader_id not in reach.registered
        code = ErrorCode.LEADER_NOT_AVAILABLE if is_gone or version < 6 else ErrorCode.LISTENER_NOT_FOUND
        leader_id = NO_LEADER
    elif version == 0 and (len(replicas) < len(partition.replicas) or len(isr) < len(partition.isr)):
        code = ErrorCode.REPLICA_NOT_AVAILABLE
    return _Partition(
        error_code=code,
        partition_index=index,
        leader_id=leader_id,
        leader_epoch=partition.leader_epoch,
        replica_nodes=replicas,
        isr_nodes=isr,
        offline_replicas=reach.offline_replicas(partition),
    )


API = Api(KEY, handle, amplifies=True)
