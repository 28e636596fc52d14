import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Members of consumer groups on Kafka's Java consumer, a thread each: commands as JSON lines on stdin, events as
 * JSON lines on stdout. An event is written before what it tells of can take effect on another member.
 */
public final class GroupMembers {
    private static final ObjectMapper JSON = new ObjectMapper();

    private GroupMembers() { }

    static ObjectNode event(String member, String name) {
        ObjectNode event = JSON.createObjectNode();
        event.put("member", member);
        event.put("event", name);
        return event;
    }

    static void emit(ObjectNode event) {
        synchronized (System.out) {
            event.put("at", ChronoUnit.MICROS.between(Instant.EPOCH, Instant.now()));
            System.out.println(event);
            System.out.flush();
        }
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, Member> members = new ConcurrentHashMap<>();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonNode command = JSON.readTree(line);
            String name = command.get("member").asText();
            if (command.get("op").asText().equals("start")) {
                Member member = new Member(name, command);
                members.put(name, member);
                Thread thread = new Thread(member, name);
                thread.setDaemon(true);
                thread.start();
            } else {
                members.get(name).commands.add(command);
            }
        }
    }

    private static final class Member implements Runnable, ConsumerRebalanceListener {
        final ConcurrentLinkedQueue<JsonNode> commands = new ConcurrentLinkedQueue<>();
        private final String name;
        private final JsonNode given;
        private final Map<TopicPartition, OffsetAndMetadata> pending = new HashMap<>();
        private KafkaConsumer<byte[], byte[]> consumer;

        Member(String name, JsonNode given) {
            this.name = name;
            this.given = given;
        }

        @Override
        public void run() {
            try {
                consumer = new KafkaConsumer<>(config(), new ByteArrayDeserializer(), new ByteArrayDeserializer());
                subscribe();
                serve();
            } catch (Throwable failure) {
                ObjectNode event = event(name, "error");
                event.put("error", failure.toString());
                emit(event);
                failure.printStackTrace();
            }
        }

        private Map<String, Object> config() {
            Map<String, Object> config = new HashMap<>();
            String protocol = given.get("protocol").asText();
            String assignor = given.path("assignor").asText("");
            config.put("bootstrap.servers", given.get("bootstrap").asText());
            config.put("client.id", name);
            config.put("group.id", given.get("group").asText());
            config.put("group.protocol", protocol);
            config.put("enable.auto.commit", "false");
            config.put("auto.offset.reset", "earliest");
            config.put("metadata.max.age.ms", "500");
            config.put("retry.backoff.ms", "50");
            config.put("fetch.max.wait.ms", "200");
            config.put("max.poll.interval.ms", given.get("max_poll_ms").asInt());
            if (given.hasNonNull("instance")) {
                config.put("group.instance.id", given.get("instance").asText());
            }
            if (protocol.equals("consumer")) {
                if (!assignor.isEmpty()) {
                    config.put("group.remote.assignor", assignor);
                }
            } else {
                config.put("session.timeout.ms", given.get("session_ms").asInt());
                config.put("heartbeat.interval.ms", given.get("heartbeat_ms").asInt());
                Map<String, String> classes = Map.of("range", "Range", "roundrobin", "RoundRobin", "sticky", "Sticky",
                    "cooperative-sticky", "CooperativeSticky");
                if (!assignor.isEmpty()) {
                    config.put("partition.assignment.strategy",
                        "org.apache.kafka.clients.consumer." + classes.get(assignor) + "Assignor");
                }
            }
            return config;
        }

        private void subscribe() {
            String pattern = given.path("pattern").asText("");
            if (pattern.isEmpty()) {
                List<String> topics = new ArrayList<>();
                given.get("topics").forEach(topic -> topics.add(topic.asText()));
                consumer.subscribe(topics, this);
            } else if (given.get("protocol").asText().equals("consumer")) {
                consumer.subscribe(new SubscriptionPattern(pattern), this);
            } else {
                consumer.subscribe(Pattern.compile(pattern), this);
            }
        }

        private void serve() throws InterruptedException {
            int commitEvery = given.get("commit_every").asInt();
            int uncommitted = 0;
            long pauseMs = 0;
            while (true) {
                JsonNode command = commands.poll();
                if (command != null && command.get("op").asText().equals("close")) {
                    commit(pending.keySet());
                    consumer.close();
                    emit(event(name, "closed"));
                    return;
                }
                if (command != null) {
                    pauseMs = command.get("ms").asLong();
                }
                ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(100));
                deliver(records);
                uncommitted += records.count();
                if (pauseMs > 0 && !records.isEmpty()) {
                    emit(event(name, "paused"));
                    Thread.sleep(pauseMs);
                    pauseMs = 0;
                    emit(event(name, "resumed"));
                    uncommitted = commitEvery;
                }
                if (uncommitted >= commitEvery) {
                    uncommitted = 0;
                    commit(pending.keySet());
                }
            }
        }

        private void deliver(ConsumerRecords<byte[], byte[]> records) {
            for (TopicPartition partition : records.partitions()) {
                ObjectNode event = event(name, "records");
                event.put("topic", partition.topic());
                event.put("partition", partition.partition());
                ArrayNode offsets = event.putArray("offsets");
                for (ConsumerRecord<byte[], byte[]> record : records.records(partition)) {
                    offsets.add(record.offset());
                    pending.put(partition,
                        new OffsetAndMetadata(record.offset() + 1, record.leaderEpoch(), ""));
                }
                emit(event);
            }
        }

        private void commit(Collection<TopicPartition> partitions) {
            Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>(pending);
            offsets.keySet().retainAll(partitions);
            if (offsets.isEmpty()) {
                return;
            }
            emit(offsets("committing", offsets));
            try {
                consumer.commitSync(offsets);
                pending.entrySet().removeAll(offsets.entrySet());
                emit(offsets("committed", offsets));
            } catch (KafkaException failure) {
                ObjectNode event = offsets("commit_failed", offsets);
                event.put("error", failure.toString());
                emit(event);
            }
        }

        private ObjectNode offsets(String kind, Map<TopicPartition, OffsetAndMetadata> offsets) {
            ObjectNode event = event(name, kind);
            ArrayNode list = event.putArray("offsets");
            offsets.forEach((partition, offset) ->
                list.addArray().add(partition.topic()).add(partition.partition()).add(offset.offset()));
            return event;
        }

        private ObjectNode partitions(String kind, Collection<TopicPartition> partitions) {
            ObjectNode event = event(name, kind);
            ArrayNode list = event.putArray("partitions");
            partitions.forEach(partition -> list.addArray().add(partition.topic()).add(partition.partition()));
            return event;
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            emit(partitions("assigned", partitions));
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            commit(partitions);
            pending.keySet().removeAll(partitions);
            emit(partitions("revoked", partitions));
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> partitions) {
            pending.keySet().removeAll(partitions);
            emit(partitions("lost", partitions));
        }
    }
}
