// Members of consumer groups on franz-go: commands as JSON lines on stdin, events as JSON lines on stdout.
// Each event is written before what it tells of can take effect on another member: `revoked` before the
// partitions are released, `records` before their commit.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

type command struct {
	Op          string   `json:"op"`
	Member      string   `json:"member"`
	Bootstrap   string   `json:"bootstrap"`
	Group       string   `json:"group"`
	Protocol    string   `json:"protocol"`
	Assignor    string   `json:"assignor"`
	Instance    string   `json:"instance"`
	Topics      []string `json:"topics"`
	Pattern     string   `json:"pattern"`
	SessionMs   int      `json:"session_ms"`
	HeartbeatMs int      `json:"heartbeat_ms"`
	MaxPollMs   int      `json:"max_poll_ms"`
	CommitEvery int      `json:"commit_every"`
	Ms          int      `json:"ms"`
}

type partition struct {
	topic string
	index int32
}

var output = struct {
	sync.Mutex
	lines *json.Encoder
}{lines: json.NewEncoder(os.Stdout)}

func emit(member, event string, fields map[string]any) {
	output.Lock()
	defer output.Unlock()
	if fields == nil {
		fields = map[string]any{}
	}
	fields["at"], fields["member"], fields["event"] = time.Now().UnixMicro(), member, event
	if err := output.lines.Encode(fields); err != nil {
		os.Exit(1)
	}
}

type member struct {
	name     string
	client   *kgo.Client
	commands chan command
	mutex    sync.Mutex
	pending  map[partition]kgo.EpochOffset
}

func listed(partitions map[string][]int32) [][]any {
	list := [][]any{}
	for topic, indexes := range partitions {
		for _, index := range indexes {
			list = append(list, []any{topic, index})
		}
	}
	return list
}

func milliseconds(count int) time.Duration { return time.Duration(count) * time.Millisecond }

func start(given command) (*member, error) {
	made := &member{name: given.Member, commands: make(chan command, 16), pending: map[partition]kgo.EpochOffset{}}
	options := []kgo.Opt{
		kgo.SeedBrokers(given.Bootstrap),
		kgo.ClientID(given.Member),
		kgo.ConsumerGroup(given.Group),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.SessionTimeout(milliseconds(given.SessionMs)),
		kgo.HeartbeatInterval(milliseconds(given.HeartbeatMs)),
		kgo.RebalanceTimeout(milliseconds(given.MaxPollMs)),
		kgo.MetadataMinAge(200 * time.Millisecond),
		kgo.MetadataMaxAge(500 * time.Millisecond),
		kgo.FetchMaxWait(200 * time.Millisecond),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, added map[string][]int32) {
			emit(made.name, "assigned", map[string]any{"partitions": listed(added)})
		}),
		kgo.OnPartitionsRevoked(func(ctx context.Context, client *kgo.Client, gone map[string][]int32) {
			made.commit(ctx, client, gone)
			made.forget(gone)
			emit(made.name, "revoked", map[string]any{"partitions": listed(gone)})
		}),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, gone map[string][]int32) {
			made.forget(gone)
			emit(made.name, "lost", map[string]any{"partitions": listed(gone)})
		}),
	}
	if given.Pattern != "" {
		options = append(options, kgo.ConsumeRegex(), kgo.ConsumeTopics(given.Pattern))
	} else {
		options = append(options, kgo.ConsumeTopics(given.Topics...))
	}
	if given.Instance != "" {
		options = append(options, kgo.InstanceID(given.Instance))
	}
	balancers := map[string]kgo.GroupBalancer{
		"": kgo.StickyBalancer(), "range": kgo.RangeBalancer(), "roundrobin": kgo.RoundRobinBalancer(),
		"sticky": kgo.StickyBalancer(), "cooperative-sticky": kgo.CooperativeStickyBalancer(),
		"uniform": kgo.StickyBalancer(),
	}
	balancer, known := balancers[given.Assignor]
	if !known {
		return nil, fmt.Errorf("unknown assignor %q", given.Assignor)
	}
	options = append(options, kgo.Balancers(balancer))
	if given.Protocol == "consumer" {
		options = append(options, kgo.ServerSideBalancer())
	}
	client, err := kgo.NewClient(options...)
	made.client = client
	return made, err
}

func (m *member) forget(gone map[string][]int32) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	for topic, indexes := range gone {
		for _, index := range indexes {
			delete(m.pending, partition{topic, index})
		}
	}
}

// commit sends what was delivered and not committed yet, of the named partitions or of all.
func (m *member) commit(ctx context.Context, client *kgo.Client, only map[string][]int32) {
	m.mutex.Lock()
	offsets := map[string]map[int32]kgo.EpochOffset{}
	list := [][]any{}
	add := func(at partition) {
		offset, is := m.pending[at]
		if !is {
			return
		}
		if offsets[at.topic] == nil {
			offsets[at.topic] = map[int32]kgo.EpochOffset{}
		}
		offsets[at.topic][at.index] = offset
		list = append(list, []any{at.topic, at.index, offset.Offset})
	}
	if only == nil {
		for at := range m.pending {
			add(at)
		}
	} else {
		for topic, indexes := range only {
			for _, index := range indexes {
				add(partition{topic, index})
			}
		}
	}
	m.mutex.Unlock()
	if len(list) == 0 {
		return
	}
	emit(m.name, "committing", map[string]any{"offsets": list})
	client.CommitOffsetsSync(ctx, offsets, func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest,
		response *kmsg.OffsetCommitResponse, err error) {
		if err != nil {
			emit(m.name, "commit_failed", map[string]any{"offsets": list, "error": err.Error()})
			return
		}
		for _, topic := range response.Topics {
			for _, answer := range topic.Partitions {
				at := partition{topic.Topic, answer.Partition}
				offset := offsets[at.topic][at.index]
				one := [][]any{{at.topic, at.index, offset.Offset}}
				if failure := kerr.ErrorForCode(answer.ErrorCode); failure != nil {
					emit(m.name, "commit_failed", map[string]any{"offsets": one, "error": failure.Error()})
					continue
				}
				m.mutex.Lock()
				if m.pending[at] == offset {
					delete(m.pending, at)
				}
				m.mutex.Unlock()
				emit(m.name, "committed", map[string]any{"offsets": one})
			}
		}
	})
}

func (m *member) deliver(fetches kgo.Fetches) int {
	for _, failure := range fetches.Errors() {
		session := &kgo.ErrGroupSession{}
		if errors.As(failure.Err, &session) { // it tells of this and joins again
			emit(m.name, "note", map[string]any{"note": failure.Err.Error()})
		} else if !errors.Is(failure.Err, context.DeadlineExceeded) {
			emit(m.name, "error", map[string]any{"error": failure.Err.Error()})
		}
	}
	count := 0
	fetches.EachPartition(func(part kgo.FetchTopicPartition) {
		if len(part.Records) == 0 {
			return
		}
		offsets := []int64{}
		for _, record := range part.Records {
			offsets = append(offsets, record.Offset)
		}
		count += len(offsets)
		last := part.Records[len(offsets)-1]
		m.mutex.Lock()
		m.pending[partition{part.Topic, part.Partition}] = kgo.EpochOffset{Epoch: last.LeaderEpoch, Offset: last.Offset + 1}
		m.mutex.Unlock()
		emit(m.name, "records", map[string]any{"topic": part.Topic, "partition": part.Partition, "offsets": offsets})
	})
	return count
}

func (m *member) run(commitEvery int) {
	uncommitted, pauseMs := 0, 0
	for {
		select {
		case next := <-m.commands:
			if next.Op == "close" {
				m.commit(context.Background(), m.client, nil)
				m.client.CloseAllowingRebalance()
				emit(m.name, "closed", nil)
				return
			}
			pauseMs = next.Ms
		default:
		}
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		fetches := m.client.PollFetches(ctx)
		cancel()
		count := m.deliver(fetches)
		uncommitted += count
		if pauseMs > 0 && count > 0 {
			emit(m.name, "paused", nil)
			time.Sleep(milliseconds(pauseMs))
			pauseMs = 0
			emit(m.name, "resumed", nil)
			uncommitted = commitEvery
		}
		if uncommitted >= commitEvery {
			uncommitted = 0
			m.commit(context.Background(), m.client, nil)
		}
		m.client.AllowRebalance()
	}
}

func main() {
	members := map[string]*member{}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var given command
		if err := json.Unmarshal(lines.Bytes(), &given); err != nil {
			panic(err)
		}
		if given.Op == "start" {
			made, err := start(given)
			if err != nil {
				emit(given.Member, "error", map[string]any{"error": err.Error()})
				continue
			}
			members[given.Member] = made
			go made.run(given.CommitEvery)
		} else {
			members[given.Member].commands <- given
		}
	}
}
