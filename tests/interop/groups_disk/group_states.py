"""Groups of every kind, brought to life on a broker: the same steps each time, whoever runs it."""

from __future__ import annotations

from typing import Any

from tests.interop import peers
from tests.interop.groups_raw.ask_consumer import Modern
from tests.interop.groups_raw.brokers import wait_for_coordinator
from tests.interop.groups_raw.conversation import Talk
from tests.interop.groups_raw.members import Member, assignment, commits, protocols, subscription


class Lives:
    """Members and offsets on one broker, which another broker may take over (`move_to`)."""

    def __init__(self, broker: peers.BrokerProcess) -> None:
        self.talk = Talk(broker, 1, {})
        self.talk.salt = ""
        self.names: dict[str, str] = {}  # ids that differ from run to run
        self.classic: list[Member] = []
        self.modern: list[Modern] = []

    def close(self) -> None:
        self.talk.__exit__()

    def begin(self, broker: peers.BrokerProcess) -> None:
        wait_for_coordinator(broker)
        self.talk.topics(alpha=3, beta=2)
        self._offsets()
        self._classic_group()
        self._static_group()
        self._consumer_group()
        self._unsettled_group()
        self._regex_group()
        self._mixed_group()
        self._gone_groups()

    def _with_group(self, group: str) -> Talk:
        talk = self.talk.another()
        talk.group = group
        return talk

    def _committed(self, group: str, offsets: dict[str, dict[int, int]], **fields: Any) -> None:
        topics = commits(self.talk, offsets, **fields)
        response = self.talk.hears("OffsetCommit", group_id=group, topics=topics)
        assert all(part.error_code == 0 for topic in response.topics for part in topic.partitions), response

    def _named(self, member: Member | Modern, name: str) -> None:
        self.names[member.id] = name

    def _offsets(self) -> None:
        self._committed("simple", {"alpha": {0: 5, 1: 2**40}, "beta": {1: 0}})
        self._committed("simple", {"alpha": {0: 6}}, committed_metadata="ünïcode", committed_leader_epoch=-1)
        self._committed("partly-deleted", {"alpha": {0: 5, 1: 6}})
        topics = [{"name": "alpha", "partitions": [{"partition_index": 1}]}]
        assert self.talk.hears("OffsetDelete", group_id="partly-deleted", topics=topics).error_code == 0

    def _classic_group(self) -> None:
        talk = self._with_group("classic")
        leader, follower = Member(talk, "A"), Member(talk, "B")
        text = subscription("alpha", "beta", owned=[])
        for member in (leader, follower):
            member.fields["protocols"] = protocols(range=text, sticky=text)
        leader.join()
        leader.sync({leader.id: assignment(("alpha", [0, 1, 2]))})
        follower.begin_join()
        talk.wait_members(2)
        leader.join()
        follower.end_join()
        follower.begin_sync()
        leader.sync(
            {leader.id: assignment(("alpha", [0, 1])), follower.id: assignment(("alpha", [2]), ("beta", [0]))}
        )
        follower.talk.finish()
        leader.commit(topics=commits(talk, {"alpha": {0: 7, 1: 8}}))
        follower.commit(topics=commits(talk, {"alpha": {2: 9}, "beta": {0: 10}}))
        for member, name in ((leader, "A"), (follower, "B")):
            self._named(member, name)
        self.classic += [leader, follower]

    def _static_group(self) -> None:
        talk = self._with_group("static")
        member = Member(talk, "S", instance="instance-one")
        member.join()
        member.sync({member.id: assignment(("alpha", [0]))})
        self._named(member, "S before")
        member.id = ""
        member.join()
        self._named(member, "S")
        self.classic.append(member)

    def _consumer_group(self) -> None:
        talk = self._with_group("consumers")
        first = Modern(talk, "member-one", rack_id="rack", server_assignor="range")
        second = Modern(talk, "member-two", instance="instance-two")
        first.join()
        first.settle(1)
        second.join()
        for _ in range(2):
            first.settle(2)
            second.settle(2)
        first.settle(2)
        talk.wait_state("Stable")
        first.commit()
        self.modern += [first, second]

    def _unsettled_group(self) -> None:
        """One member was told to give a partition up, another waits for it, a third has just come."""
        talk = self._with_group("unsettled")
        members = [Modern(talk, name, server_assignor="range") for name in ("one", "two", "three")]
        members[0].join()
        members[0].settle(1)
        members[1].join()
        members[0].beat()
        members[2].join()
        self.modern += members

    def _regex_group(self) -> None:
        talk = self._with_group("by-regex")
        member = Modern(talk, "member-three", subscribed_topic_names=None, subscribed_topic_regex="al.ha")
        member.join()
        member.settle(2)
        member.settle(2)
        talk.wait_state("Stable")
        self.modern.append(member)

    def _mixed_group(self) -> None:
        """A group of the consumer protocol in which a classic member has joined."""
        talk = self._with_group("mixed")
        modern = Modern(talk, "member-four")
        modern.join()
        modern.settle(1)
        old = Member(talk, "O", protocols=protocols(range=subscription("beta", owned=[])))
        old.join()
        old.sync()
        modern.settle(2)
        self._named(old, "O")
        self.modern.append(modern)
        self.classic.append(old)

    def _gone_groups(self) -> None:
        """Groups that are empty, or deleted, of both kinds."""
        member = Member(self._with_group("empty"), "E")
        member.join()
        member.sync({member.id: assignment(("alpha", [0]))})
        member.commit()
        member.leave()
        self._named(member, "E")
        for group in ("empty-consumers", "deleted-consumers"):
            modern = Modern(self._with_group(group), "member-five")
            modern.join()
            modern.settle(1)
            modern.commit()
            modern.leave()
        self._committed("deleted", {"alpha": {0: 1}})
        groups = ["deleted", "deleted-consumers"]
        results = self.talk.hears("DeleteGroups", groups_names=groups).results
        assert [row.error_code for row in results] == [0, 0], results

    # --- what is there --------------------------------------------------------------------------------

    def seen(self) -> dict[str, Any]:
        """Everything that can be asked about the groups, recorded anew in the transcript."""
        self.talk.transcript.clear()
        groups = ["simple", "partly-deleted", "classic", "static", "consumers", "by-regex", "mixed", "empty"]
        groups += ["unsettled", "empty-consumers", "deleted", "deleted-consumers"]
        self.talk.says("ListGroups")
        self.talk.says("DescribeGroups", groups=groups)
        self.talk.says("ConsumerGroupDescribe", group_ids=groups)
        self.talk.says("OffsetFetch", groups=[{"group_id": group, "topics": None} for group in groups])
        return dict(self.talk.transcript)

    def move_to(self, broker: peers.BrokerProcess) -> None:
        """Go on with another broker that serves the same data."""
        for talk in (self.talk, *self.talk._others):
            talk.disconnect()
            talk.broker = broker

    def go_on(self) -> None:
        """Every member still is one, in the same generation, and may commit; what was under way goes on."""
        for old in self.classic:
            assert old.heartbeat().error_code == 0, (old.talk.group, old.name)
            rows = old.commit(offset=100).topics[0].partitions
            assert rows[0].error_code == 0, (old.talk.group, old.name)
        for modern in self.modern:
            epoch = modern.epoch
            assert modern.acknowledge().error_code == 0, (modern.talk.group, modern.name)
            assert modern.talk.group == "unsettled" or modern.epoch == epoch
            assert modern.beat().error_code == 0, (modern.talk.group, modern.name)
            assert modern.commit().topics[0].partitions[0].error_code == 0, (modern.talk.group, modern.name)
