"""A classic group under everything that can happen to it, in any order.

What must hold at each step: generations only grow while the node lives; a group with members has one leader
and it is one of them; the counts kept beside the members are true; nobody gets two answers; members of a
stable group that have an assignment had asked for it; a restart gives back the group that was written last.
In the end everybody who waited has an answer.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import event, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tests.unit.coordinator.groups.classic.classic_world import GROUP, Call, World, subscription

from ottla.coordinator.groups.classic.group import ClassicGroup, ClassicState
from ottla.wire.errors import ErrorCode, MessageTooLarge, NotEnoughReplicas
from ottla.wire.messages.group_records import GroupMetadataValue

INSTANCES = ["i1", "i2", "i3"]
PROTOCOLS = [
    [("range", subscription("t"))],
    [("range", subscription("t", "u"))],
    [("range", subscription("t")), ("sticky", subscription("t"))],
    [("sticky", subscription("u")), ("range", b"unreadable")],
    [("sticky", subscription("u"))],
]


def _written(value: GroupMetadataValue) -> dict[str, Any]:
    return {
        "generation": value.generation,
        "protocol_type": value.protocol_type,
        "protocol": value.protocol,
        "leader": value.leader,
        "members": {member.member_id: repr(member) for member in value.members},
    }


class ClassicMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.world = World(size_max=5)
        self.generation = 0
        self.known_ids: list[str] = []  # whatever a client has ever been told
        self.joins: list[Call] = []
        self.syncs: dict[tuple[str, int], Call] = {}

    @property
    def group(self) -> ClassicGroup | None:
        group = self.world.groups.get(GROUP)
        assert group is None or isinstance(group, ClassicGroup)
        return group

    def _learn(self) -> None:
        for call in self.joins:
            if call.answers and not isinstance(call.answer, Exception):
                member_id = call.answer.member_id
                if member_id and member_id not in self.known_ids:
                    self.known_ids.append(member_id)

    def _some_id(self, data: st.DataObject) -> str:
        self._learn()
        return data.draw(st.sampled_from(self.known_ids)) if self.known_ids else "made-up"

    # What clients do

    @rule(
        version=st.sampled_from([3, 5, 9]),
        instance=st.sampled_from([None, None, *INSTANCES]),
        protocols=st.sampled_from(PROTOCOLS),
        session_ms=st.sampled_from([6000, 30_000]),
        rebalance_ms=st.sampled_from([5000, 60_000]),
    )
    def join(
        self, version: int, instance: str | None, protocols: Any, session_ms: int, rebalance_ms: int
    ) -> None:
        self.joins.append(
            self.world.join(
                version=version,
                instance_id=instance,
                protocols=protocols,
                session_ms=session_ms,
                rebalance_ms=rebalance_ms,
            )
        )

    @rule(data=st.data(), protocols=st.sampled_from(PROTOCOLS))
    def join_again(self, data: st.DataObject, protocols: Any) -> None:
        member_id = self._some_id(data)
        member = self.group.members.get(member_id) if self.group is not None else None
        instance = None if member is None else member.instance_id
        self.joins.append(self.world.join(member_id, instance_id=instance, protocols=protocols))

    @rule(
        versions=st.lists(st.sampled_from([3, 9]), min_size=1, max_size=3),
        instances=st.lists(st.sampled_from(INSTANCES), max_size=2, unique=True),
        who_syncs=st.sampled_from(["all", "all", "leader", "followers", "nobody"]),
    )
    def become_stable(self, versions: list[int], instances: list[str], who_syncs: str) -> None:
        """Newcomers join, everybody plays along, and some stop short of the end."""
        for version in versions:
            call = self.world.join(version=version, protocols=PROTOCOLS[2])
            if call.answers and call.code == ErrorCode.MEMBER_ID_REQUIRED:
                call = self.world.join(call.answer.member_id, protocols=PROTOCOLS[2])
            self.joins.append(call)
        for instance in instances:
            self.joins.append(self.world.join(instance_id=instance, protocols=PROTOCOLS[2]))
        if self.group is None:
            return  # its first record was refused
        self.world.leave(*((waiting, None) for waiting in list(self.group.pending_join)))
        self.all_join_again()
        for _ in range(20):
            if self.group.state is not ClassicState.PREPARING:
                break
            self.world.advance(3000)
        for member_id in list(self.group.members):
            role = "leader" if self.group.is_leader(member_id) else "followers"
            if who_syncs in ("all", role):
                self._sync(member_id, self.group.generation)
        event(f"{who_syncs} synced, the group is {self.group.state_name}")

    @rule()
    def all_join_again(self) -> None:
        for member in list(self.group.members.values()) if self.group is not None else []:
            call = self.world.join(
                member.id, instance_id=member.instance_id, protocols=list(member.protocols), rebalance_ms=5000
            )
            self.joins.append(call)

    @rule(data=st.data(), generation_back=st.sampled_from([0, 0, 0, 1]))
    def sync(self, data: st.DataObject, generation_back: int) -> None:
        self._sync(self._some_id(data), (self.group.generation if self.group else 0) - generation_back)

    @rule()
    def all_sync(self) -> None:
        group = self.group
        for member_id in list(group.members) if group is not None else []:
            assert group is not None
            self._sync(member_id, group.generation)

    def _sync(self, member_id: str, generation: int) -> None:
        group = self.group
        given = {}
        if group is not None and group.leader_id == member_id:
            given = {receiver: f"{receiver}@{generation}".encode() for receiver in group.members}
        name = None if group is None else group.protocol_name
        self.syncs[member_id, generation] = self.world.sync(member_id, generation, given, protocol_name=name)

    @rule(data=st.data())
    def heartbeat(self, data: st.DataObject) -> None:
        member_id = self._some_id(data)
        group = self.group
        was_member = group is not None and member_id in group.members
        code = self.world.heartbeat(member_id, 0 if group is None else group.generation)
        assert (code == ErrorCode.UNKNOWN_MEMBER_ID) == (not was_member)

    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        self.world.leave((self._some_id(data), None))

    @rule(instance=st.sampled_from(INSTANCES))
    def take_out(self, instance: str) -> None:
        self.world.leave(("", instance))

    @rule(
        instance=st.sampled_from(INSTANCES),
        protocols=st.sampled_from(PROTOCOLS),
        version=st.sampled_from([8, 9]),
        is_refused=st.booleans(),
    )
    def come_back(self, instance: str, protocols: Any, version: int, is_refused: bool) -> None:
        group = self.group
        is_known = group is not None and instance in group.static_ids
        event(f"static member is {'known' if is_known else 'new'}, {group and group.state_name}")
        if is_refused:
            self.world.refusal = NotEnoughReplicas()
        self.joins.append(self.world.join(instance_id=instance, protocols=protocols, version=version))
        self.world.refusal = None

    # What the world does

    @rule(ms=st.sampled_from([1, 2999, 3000, 5000, 6000, 30_000, 60_000]))
    def wait(self, ms: int) -> None:
        self.world.advance(ms)

    @rule(ms=st.sampled_from([1000, 3000, 5000]))
    def wait_while_all_live(self, ms: int) -> None:
        group = self.group
        for member_id in list(group.members if group is not None else ()):
            assert group is not None
            self.world.heartbeat(member_id, group.generation)
        self.world.advance(ms)

    @rule(error=st.sampled_from([NotEnoughReplicas(), MessageTooLarge()]))
    def refuse_the_next_record(self, error: NotEnoughReplicas | MessageTooLarge) -> None:
        self.world.refusal = error

    @rule()
    def restart(self) -> None:
        if not self.world.log:
            return
        written = self.world.last_value
        assert written is not None
        self.world.restart()
        group = self.group
        assert group is not None
        kept = group.current_record().value
        assert isinstance(kept, GroupMetadataValue)
        # A loaded group may be over the limit and prepare at once; its members are as they were.
        assert _written(kept) == _written(written)
        assert set(group.members) == {member.member_id for member in written.members}
        self.generation = group.generation

    # What always holds

    @invariant()
    def generations_only_grow(self) -> None:
        if self.group is not None:
            assert self.group.generation >= self.generation
            self.generation = self.group.generation

    @invariant()
    def there_is_one_leader_and_it_is_a_member(self) -> None:
        group = self.group
        if group is not None:
            assert (group.leader_id in group.members) if group.members else group.leader_id is None
            assert not group.is_empty or not group.members

    @invariant()
    def the_counts_are_true(self) -> None:
        group = self.group
        if group is None:
            return
        members = group.members.values()
        assert group.joined_count == sum(member.join is not None for member in members)
        names = Counter(name for member in members for name, _metadata in member.protocols)
        assert group.protocol_counts == dict(names)
        assert group.static_ids == {
            member.instance_id: member.id for member in members if member.instance_id is not None
        }
        assert group.pending_sync <= set(group.members)
        assert not group.pending_join & set(group.members)
        if group.members:
            assert max(names.values()) == len(members)  # something is left to agree on

    @invariant()
    def those_who_wait_wait_for_something(self) -> None:
        group = self.group
        if group is None:
            return
        for member in group.members.values():
            assert member.join is None or group.state is ClassicState.PREPARING
            assert member.sync is None or group.state is ClassicState.COMPLETING
            assert member.sync is None or member.id not in group.pending_sync
        if group.state is ClassicState.PREPARING:
            assert ("classic-join", GROUP) in self.world.timer_keys
        if group.pending_sync:
            assert ("classic-sync", GROUP) in self.world.timer_keys

    @invariant()
    def an_assignment_is_told_only_once_it_is_written(self) -> None:
        for (member_id, generation), call in self.syncs.items():
            if call.answers and call.code == ErrorCode.NONE and call.answer.assignment:
                told: bytes = call.answer.assignment
                assert int(told.rpartition(b"@")[2]) == generation
                assert any(value is not None and told in value for _key, value in self.world.log), member_id

    @invariant()
    def the_log_has_what_a_stable_group_is(self) -> None:
        group = self.group
        written = self.world.last_value if self.world.log else None
        if group is None or written is None or group.state is not ClassicState.STABLE:
            return
        assert set(group.members) == {member.member_id for member in written.members}
        assert group.generation == written.generation
        assert {member.assignment for member in written.members} == {
            member.assignment for member in group.members.values()
        }

    @invariant()
    def nobody_gets_two_answers(self) -> None:
        assert all(len(call.answers) <= 1 for call in self.world.calls)

    def teardown(self) -> None:
        self.world.refusal = None
        self.world.advance(1_000_000)
        assert [call for call in self.world.calls if call.is_held] == []
        assert self.world.timer_keys == set()
        assert self.group is None or self.group.is_empty


TestClassicMachine = ClassicMachine.TestCase
TestClassicMachine.settings = settings(max_examples=200, stateful_step_count=30, deadline=None)
