// Transactions with franz-go: JSON commands on stdin, JSON answers on stdout.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

type command struct {
	Op        string  `json:"op"`
	Bootstrap string  `json:"bootstrap"`
	ID        string  `json:"id"`
	Topic     string  `json:"topic"`
	Source    string  `json:"source"`
	Group     string  `json:"group"`
	Seconds   float64 `json:"seconds"`
}

type record struct {
	partition int32
	value     string
}

var transactions = []struct {
	records  []record
	isCommit bool
}{
	{[]record{{0, "a0"}, {1, "a1"}, {0, "a2"}}, true},
	{[]record{{0, "b0"}, {1, "b1"}}, false},
	{[]record{{1, "c0"}, {0, "c1"}}, true},
}

const attemptsMax = 8

func client(given command, timeout time.Duration, more ...kgo.Opt) (*kgo.Client, error) {
	options := []kgo.Opt{
		kgo.SeedBrokers(given.Bootstrap),
		kgo.ClientID("txn"),
		kgo.TransactionalID(given.ID),
		kgo.TransactionTimeout(timeout),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }),
	}
	return kgo.NewClient(append(options, more...)...)
}

// started gives a producer that has its id: franz-go gives up where the very first connection breaks, and its
// users make another client.
func started(ctx context.Context, given command) (producer *kgo.Client, err error) {
	for attempt := 0; attempt < attemptsMax; attempt++ {
		if producer, err = client(given, time.Minute); err != nil {
			return nil, err
		}
		if _, _, err = producer.ProducerID(ctx); err == nil {
			return producer, nil
		}
		producer.Close()
	}
	return nil, err
}

func send(ctx context.Context, producer *kgo.Client, topic string, records []record) error {
	var all []*kgo.Record
	for _, one := range records {
		all = append(all, &kgo.Record{Topic: topic, Partition: one.partition, Value: []byte(one.value)})
	}
	return producer.ProduceSync(ctx, all...).FirstErr()
}

func flow(ctx context.Context, given command) (map[string]any, error) {
	producer, err := started(ctx, given)
	if err != nil {
		return nil, err
	}
	defer producer.Close()
	attempts := 0
	for _, transaction := range transactions {
		var last error
		isDone := false
		for attempt := 0; attempt < attemptsMax && !isDone; attempt++ {
			attempts++
			if last = producer.BeginTransaction(); last != nil {
				return nil, last
			}
			last = send(ctx, producer, given.Topic, transaction.records)
			end := kgo.TryCommit
			if last != nil || !transaction.isCommit {
				end = kgo.TryAbort
			}
			failed := last
			if last = producer.EndTransaction(ctx, end); last == nil && failed == nil {
				isDone = true
			}
		}
		if !isDone {
			return nil, fmt.Errorf("not done after %d attempts: %w", attemptsMax, last)
		}
	}
	return map[string]any{"attempts": attempts}, nil
}

// move reads the source in a group and writes each record in the transaction that commits its offset.
func move(ctx context.Context, given command) (map[string]any, error) {
	session, err := kgo.NewGroupTransactSession(
		kgo.SeedBrokers(given.Bootstrap),
		kgo.ClientID("txn"),
		kgo.TransactionalID(given.ID),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ConsumerGroup(given.Group),
		kgo.ConsumeTopics(given.Source),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	)
	if err != nil {
		return nil, err
	}
	defer session.Close()
	moved := 0
	for moved < 20 {
		fetches := session.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, err
		}
		if err := session.Begin(); err != nil {
			return nil, err
		}
		count := 0
		fetches.EachRecord(func(one *kgo.Record) {
			count++
			session.Produce(ctx, &kgo.Record{Topic: given.Topic, Partition: 0, Value: one.Value}, nil)
		})
		committed, err := session.End(ctx, kgo.TryCommit)
		if err != nil {
			return nil, err
		}
		if committed {
			moved += count
		}
	}
	return map[string]any{"moved": moved}, nil
}

func refused(err error) map[string]any {
	if err == nil {
		return map[string]any{"refused": nil}
	}
	isFatal := errors.Is(err, kerr.InvalidProducerEpoch) || errors.Is(err, kerr.ProducerFenced)
	return map[string]any{"refused": err.Error(), "is_fatal": isFatal}
}

func fence(ctx context.Context, given command) (map[string]any, error) {
	old, err := client(given, time.Minute)
	if err != nil {
		return nil, err
	}
	defer old.Close()
	if err := old.BeginTransaction(); err != nil {
		return nil, err
	}
	if err := send(ctx, old, given.Topic, []record{{0, "of the old one"}}); err != nil {
		return nil, err
	}
	next, err := client(given, time.Minute)
	if err != nil {
		return nil, err
	}
	defer next.Close()
	if _, _, err := next.ProducerID(ctx); err != nil {
		return nil, err
	}
	return refused(old.EndTransaction(ctx, kgo.TryCommit)), nil
}

func overstay(ctx context.Context, given command) (map[string]any, error) {
	producer, err := client(given, time.Second)
	if err != nil {
		return nil, err
	}
	defer producer.Close()
	if err := producer.BeginTransaction(); err != nil {
		return nil, err
	}
	if err := send(ctx, producer, given.Topic, []record{{0, "too late"}}); err != nil {
		return nil, err
	}
	time.Sleep(time.Duration(given.Seconds * float64(time.Second)))
	return refused(producer.EndTransaction(ctx, kgo.TryCommit)), nil
}

func main() {
	operations := map[string]func(context.Context, command) (map[string]any, error){
		"flow": flow, "fence": fence, "overstay": overstay, "move": move,
	}
	input := bufio.NewScanner(os.Stdin)
	output := json.NewEncoder(os.Stdout)
	for input.Scan() {
		var given command
		var answer map[string]any
		err := json.Unmarshal(input.Bytes(), &given)
		if err == nil {
			ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
			answer, err = operations[given.Op](ctx, given)
			cancel()
		}
		if err != nil {
			answer = map[string]any{"error": err.Error()}
		}
		if output.Encode(answer) != nil {
			os.Exit(1)
		}
	}
}
