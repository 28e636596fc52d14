"""Scripts of offsets: committing, fetching, deleting, and the finding of coordinators."""

from __future__ import annotations

from typing import Any

from tests.interop.groups_raw.conversation import UNKNOWN_ID, Talk
from tests.interop.groups_raw.members import Member, commits, protocols, stable_pair, subscription
from tests.interop.groups_raw.scripts import script


def commit(talk: Talk, offsets: dict[str, dict[int, int]], *, group: str | None = None, **fields: Any) -> Any:
    """Commit without being a member."""
    return talk.says(
        "OffsetCommit",
        group_id=talk.group if group is None else group,
        topics=commits(talk, offsets),
        **fields,
    )


def fetch(
    talk: Talk, partitions: dict[str, list[int]] | None, *, group: str | None = None, **fields: Any
) -> Any:
    """Fetch offsets of one group, in the form of each version."""
    group_id = talk.group if group is None else group
    rows: list[dict[str, Any]] | None = None
    grouped: list[dict[str, Any]] | None = None
    if partitions is not None:
        rows = [{"name": topic, "partition_indexes": indexes} for topic, indexes in partitions.items()]
        grouped = [{**row, "topic_id": talk.known_id(str(row["name"]))} for row in rows]
    elif talk.version_of("OffsetFetch") < 2:
        rows = []
    asked = {"group_id": group_id, "topics": grouped, **fields}
    return talk.says("OffsetFetch", group_id=group_id, topics=rows, groups=[asked])


def everything(talk: Talk) -> None:
    fetch(talk, None)


@script("OffsetCommit", "OffsetFetch")
def offsets_without_membership(talk: Talk) -> None:
    talk.topics(alpha=3, beta=2)
    everything(talk)
    fetch(talk, {"alpha": [0, 1]})
    commit(talk, {"alpha": {0: 5, 2: 7}, "beta": {1: 0}})
    fetch(talk, {"alpha": [0, 1, 2], "beta": [0, 1]})
    everything(talk)
    commit(talk, {"alpha": {0: 3}})
    fetch(talk, {"alpha": [0]})
    fetch(talk, {})
    talk.says("DescribeGroups", groups=[talk.group])
    talk.says("ListGroups")


@script("OffsetCommit", "OffsetFetch")
def offsets_of_what_is_not_there(talk: Talk) -> None:
    talk.topics(alpha=3, beta=2)
    commit(talk, {"unknown": {0: 1}})
    commit(talk, {"alpha": {3: 1, 0: 4, -1: 2}, "unknown": {0: 1}})
    everything(talk)
    fetch(talk, {"alpha": [3, -1, 0], "unknown": [0]})
    commit(talk, {"": {0: 1}})
    commit(talk, {"a b": {0: 1}})
    fetch(talk, {"": [0], "a b": [1]})


@script("OffsetCommit")
def offsets_that_are_odd(talk: Talk) -> None:
    talk.topics(alpha=3, beta=2)
    for offset in (-1, -2, -5, 2**63 - 1, -(2**63)):
        commit(talk, {"alpha": {0: offset}})
        everything(talk)
    rows = commits(talk, {"alpha": {0: 1}})
    talk.says("OffsetCommit", group_id=talk.group, topics=[])
    talk.says("OffsetCommit", group_id=talk.group, topics=[{**rows[0], "partitions": []}])
    talk.says("OffsetCommit", group_id=talk.group, topics=rows, retention_time_ms=1000)
    everything(talk)


@script("OffsetCommit")
def metadata_of_every_size(talk: Talk) -> None:
    talk.topics(alpha=3, beta=2)
    for index, text in enumerate((None, "", "ü" * 1365, "x" * 4096, "x" * 4097, "ü" * 2048, "ü" * 2049)):
        rows = commits(talk, {"alpha": {0: index}}, committed_metadata=text)
        talk.says("OffsetCommit", group_id=talk.group, topics=rows)
        everything(talk)
    mixed = commits(talk, {"alpha": {0: 50, 1: 51}})
    mixed[0]["partitions"][0]["committed_metadata"] = "x" * 5000
    talk.says("OffsetCommit", group_id=talk.group, topics=mixed)
    everything(talk)


@script("OffsetCommit")
def topics_named_twice(talk: Talk) -> None:
    talk.topics(alpha=3, beta=2)
    twice = commits(talk, {"alpha": {0: 1, 1: 1}}) + commits(talk, {"beta": {0: 9}})
    twice += commits(talk, {"alpha": {0: 2, 2: 2}}) + commits(talk, {"unknown": {0: 1}})
    twice += commits(talk, {"unknown": {0: 2}})
    talk.says("OffsetCommit", group_id=talk.group, topics=twice)
    everything(talk)
    rows = commits(talk, {"alpha": {0: 11}})
    rows[0]["partitions"] *= 2
    rows[0]["partitions"][1] = {**rows[0]["partitions"][0], "committed_offset": 12}
    talk.says("OffsetCommit", group_id=talk.group, topics=rows)
    everything(talk)


@script("OffsetFetch")
def fetches_of_things_named_twice(talk: Talk) -> None:
    talk.topics(alpha=3, beta=2)
    commit(talk, {"alpha": {0: 1}})
    row = {"name": "alpha", "topic_id": talk.known_id("alpha"), "partition_indexes": [0, 0, 1]}
    old = [{key: value for key, value in row.items() if key != "topic_id"}] * 2
    groups = [{"group_id": talk.group, "topics": [row, row]}]
    talk.says("OffsetFetch", group_id=talk.group, topics=old, groups=groups)


@script("OffsetFetch", first=8)
def offsets_of_several_groups(talk: Talk) -> None:
    talk.topics(alpha=3, beta=2)
    other = talk.name("other")
    commit(talk, {"alpha": {0: 1}})
    commit(talk, {"beta": {1: 2}}, group=other)
    row = {"name": "alpha", "topic_id": talk.known_id("alpha"), "partition_indexes": [0, 1]}
    groups = [
        {"group_id": talk.group, "topics": None},
        {"group_id": other, "topics": [row]},
        {"group_id": talk.name("unknown"), "topics": [row]},
        {"group_id": talk.name("unknown-too"), "topics": None},
        {"group_id": "", "topics": None},
        {"group_id": "", "topics": [row]},
        {"group_id": other, "topics": None},
    ]
    talk.says("OffsetFetch", groups=groups)
    talk.says("OffsetFetch", groups=groups, require_stable=True)
    talk.says("OffsetFetch", groups=[])


@script("OffsetFetch", "OffsetCommit")
def an_empty_group_id(talk: Talk) -> None:
    talk.topics(alpha=3)
    commit(talk, {"alpha": {0: 77}}, group="")
    fetch(talk, {"alpha": [0]}, group="")
    fetch(talk, None, group="")
    talk.says("DeleteGroups", groups_names=[""])


@script("OffsetFetch", newest_only=True)
@script("OffsetCommit", newest_only=True)
def topics_by_ids_that_are_wrong(talk: Talk) -> None:
    talk.topics(alpha=3)
    rows = commits(talk, {"alpha": {0: 1}})
    for wrong in (UNKNOWN_ID, bytes(16)):
        topics = [{**rows[0], "topic_id": wrong}, *rows]
        talk.says("OffsetCommit", group_id=talk.group, topics=topics)
        asked = [{"topic_id": wrong, "partition_indexes": [0, 1]}, {"topic_id": talk.known_id("alpha")}]
        talk.says("OffsetFetch", groups=[{"group_id": talk.group, "topics": asked}])
    everything(talk)


@script("OffsetCommit")
def commits_of_members(talk: Talk) -> None:
    talk.topics(alpha=3)
    nobody = Member(talk, "-")
    nobody.commit(generation_id_or_member_epoch=3)
    nobody.commit(generation_id_or_member_epoch=3, member_id="x")
    nobody.commit(generation_id_or_member_epoch=-1, member_id="x")
    nobody.commit(generation_id_or_member_epoch=-1, group_instance_id="x")
    nobody.commit(generation_id_or_member_epoch=-1, member_id="x", group_instance_id="x")
    everything(talk)
    leader, follower = stable_pair(talk)
    leader.commit()
    everything(talk)
    leader.commit(generation_id_or_member_epoch=leader.generation + 1)
    leader.commit(generation_id_or_member_epoch=leader.generation - 1)
    leader.commit(generation_id_or_member_epoch=-1)
    leader.commit(generation_id_or_member_epoch=-1, member_id="")
    leader.commit(generation_id_or_member_epoch=leader.generation, member_id="")
    leader.commit(member_id="unknown")
    leader.commit(group_instance_id="unknown")
    follower.commit(offset=9)
    leader.leave()
    follower.leave()
    follower.commit()
    nobody.commit(offset=10)
    nobody.commit(generation_id_or_member_epoch=3)
    everything(talk)


@script("OffsetFetch", first=9)
def fetches_of_members_of_a_classic_group(talk: Talk) -> None:
    talk.topics(alpha=3)
    leader, _ = stable_pair(talk)
    leader.commit()
    for member, epoch in ((leader.id, leader.generation), (leader.id, 99), ("x", 1), ("", -1), (None, -1)):
        fetch(talk, {"alpha": [0]}, member_id=member, member_epoch=epoch)
    fetch(talk, {"alpha": [0]}, group=talk.name("none"), member_id="x", member_epoch=1)
    fetch(talk, None, group=talk.name("none"), member_id="x", member_epoch=0)


@script("OffsetDelete")
def offsets_are_deleted(talk: Talk) -> None:
    talk.topics(alpha=3, beta=2)

    def delete(group: str | None = None, **partitions: list[int]) -> None:
        topics = [
            {"name": topic, "partitions": [{"partition_index": index} for index in indexes]}
            for topic, indexes in partitions.items()
        ]
        talk.says("OffsetDelete", group_id=talk.group if group is None else group, topics=topics)

    delete(alpha=[0])
    delete(group="", alpha=[0])
    commit(talk, {"alpha": {0: 1, 1: 2, 2: 3}, "beta": {0: 4, 1: 5}})
    delete(alpha=[0, 1, 7], unknown=[0])
    everything(talk)
    delete(alpha=[1])
    delete()
    delete(alpha=[])
    delete(alpha=[2, 2], beta=[-1])
    everything(talk)
    member = Member(talk, "A")
    member.join()
    member.sync()
    commit_rows = commits(talk, {"alpha": {0: 1}, "beta": {0: 2}})
    member.commit(topics=commit_rows)
    delete(alpha=[0], beta=[0])
    everything(talk)
    member.leave()
    delete(alpha=[0], beta=[0, 1])
    everything(talk)
    talk.says("DescribeGroups", groups=[talk.group])


@script("OffsetDelete")
def offsets_of_a_group_that_is_not_consumers(talk: Talk) -> None:
    talk.topics(alpha=3)
    member = Member(talk, "A", protocol_type="connect", protocols=protocols(x=b"?"))
    member.join()
    member.sync()
    member.commit()
    topics = [{"name": "alpha", "partitions": [{"partition_index": 0}]}]
    talk.says("OffsetDelete", group_id=talk.group, topics=topics)
    other = Member(talk, "B")
    other.talk.group = talk.name("garbage")
    other.join(protocols=protocols(range=b""))
    other.sync()
    talk.says("OffsetDelete", group_id=talk.name("garbage"), topics=topics)


@script("DescribeGroups")
def groups_are_described(talk: Talk) -> None:
    talk.says("DescribeGroups", groups=[talk.group])
    talk.says("DescribeGroups", groups=[""])
    talk.says("DescribeGroups", groups=[])
    member = Member(talk, "A", protocols=protocols(range=subscription("alpha"), sticky=b"second"))
    member.join()
    member.sync({member.id: b"x"})
    names = [talk.group, talk.name("unknown"), talk.group, ""]
    talk.says("DescribeGroups", groups=names)
    talk.says("DescribeGroups", groups=names[:2], include_authorized_operations=True)


@script("DeleteGroups")
def groups_are_deleted(talk: Talk) -> None:
    talk.topics(alpha=3)
    talk.says("DeleteGroups", groups_names=[talk.group])
    talk.says("DeleteGroups", groups_names=[])
    talk.says("DeleteGroups", groups_names=[""])
    member = Member(talk, "A")
    member.join()
    member.sync({member.id: b"x"})
    member.commit()
    other = talk.name("other")
    commit(talk, {"alpha": {0: 1}}, group=other)
    talk.says("DeleteGroups", groups_names=[talk.group, other, talk.name("unknown"), ""])
    fetch(talk, None, group=other)
    everything(talk)
    member.leave()
    talk.says("DeleteGroups", groups_names=[talk.group, talk.group])
    talk.says("DeleteGroups", groups_names=[talk.group])
    everything(talk)
    talk.says("DescribeGroups", groups=[talk.group])
    talk.says("ListGroups")
    again = Member(talk, "B")
    again.join()


@script("ListGroups")
def groups_are_listed(talk: Talk) -> None:
    talk.topics(alpha=3)
    commit(talk, {"alpha": {0: 1}}, group=talk.name("simple"))
    member = Member(talk, "A")
    member.join()
    talk.says("ListGroups")
    if talk.version_of("ListGroups") < 4:
        return
    member.sync()
    filters: list[tuple[list[str], list[str]]] = [
        (["Stable"], []),
        (["stable"], []),
        (["STABLE", "Empty"], []),
        (["Empty"], []),
        (["Dead", "PreparingRebalance"], []),
        (["Assigning", "Reconciling"], []),
        (["nonsense"], []),
        ([""], []),
    ]
    if talk.version_of("ListGroups") >= 5:
        filters += [
            ([], ["classic"]),
            ([], ["Classic", "consumer"]),
            ([], ["CONSUMER"]),
            ([], ["share", "streams"]),
            ([], ["nonsense"]),
            ([], ["unknown"]),
            (["Stable"], ["classic"]),
            (["Empty"], ["consumer"]),
        ]
    for states, types in filters:
        talk.says("ListGroups", states_filter=states, types_filter=types)


@script("FindCoordinator")
def coordinators_are_found(talk: Talk) -> None:
    version = talk.version_of("FindCoordinator")
    for kind in (0, 1, 3, -1) if version >= 1 else (0,):
        for keys in ([talk.group], [""], [talk.group, talk.name("b"), talk.group, ""], []):
            talk.says("FindCoordinator", key=keys[0] if keys else "", key_type=kind, coordinator_keys=keys)


@script("TxnOffsetCommit")
def transactional_commits_that_are_refused(talk: Talk) -> None:
    talk.topics(alpha=3)

    def commit_in_transaction(**fields: Any) -> None:
        asked = {
            "transactional_id": talk.name("transaction"),
            "group_id": talk.group,
            "producer_id": 1_000_000,
            "producer_epoch": 0,
            "topics": [
                {
                    "name": "alpha",
                    "partitions": [{"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}],
                }
            ],
            **fields,
        }
        talk.says("TxnOffsetCommit", **asked)

    commit_in_transaction(group_id="")
    commit_in_transaction(topics=[])
    commit_in_transaction(topics=[{"name": "unknown", "partitions": [{"partition_index": 0}]}])
    everything(talk)
