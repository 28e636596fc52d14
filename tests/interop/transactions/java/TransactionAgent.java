import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.OutOfOrderSequenceException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Transactions with Kafka's own producer: JSON commands on stdin, JSON answers on stdout. */
public class TransactionAgent {
    record Transaction(int[] partitions, String[] values, long offset, boolean isCommit) {}

    static final Transaction[] TRANSACTIONS = {
        new Transaction(new int[] {0, 1, 0}, new String[] {"a0", "a1", "a2"}, 5, true),
        new Transaction(new int[] {0, 1}, new String[] {"b0", "b1"}, 9, false),
        new Transaction(new int[] {1, 0}, new String[] {"c0", "c1"}, 7, true),
    };
    static final int ATTEMPTS = 8;
    static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = input.readLine()) != null; ) {
            JsonNode command = JSON.readTree(line);
            ObjectNode answer = JSON.createObjectNode();
            try {
                switch (command.get("op").asText()) {
                    case "flow" -> flow(command, answer);
                    case "fence" -> fence(command, answer);
                    case "overstay" -> overstay(command, answer);
                    case "zombie" -> zombie(command, answer);
                    case "begin_zombie" -> begun = new Zombie(command);
                    case "end_zombie" -> begun.commit(answer);
                    case "close_zombie" -> begun.close();
                    default -> throw new IllegalArgumentException(line);
                }
            } catch (Exception error) {
                answer.put("error", error.toString());
            }
            System.out.println(JSON.writeValueAsString(answer));
        }
    }

    static KafkaProducer<String, String> producer(JsonNode command, int timeoutMs) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", command.get("bootstrap").asText());
        settings.put("client.id", "txn");
        settings.put("transactional.id", command.get("id").asText());
        settings.put("transaction.timeout.ms", timeoutMs);
        settings.put("retry.backoff.ms", 20);
        settings.put("reconnect.backoff.ms", 20);
        settings.put("reconnect.backoff.max.ms", 100);
        settings.put("linger.ms", 0);
        settings.put("max.block.ms", 30000);
        return new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
    }

    static void flow(JsonNode command, ObjectNode answer) throws Exception {
        int attempts = 0;
        try (KafkaProducer<String, String> producer = producer(command, 60000)) {
            producer.initTransactions();
            for (Transaction transaction : TRANSACTIONS) {
                for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
                    attempts++;
                    producer.beginTransaction();
                    try {
                        write(producer, command, transaction);
                        if (transaction.isCommit) producer.commitTransaction();
                        else producer.abortTransaction();
                        break;
                    } catch (ProducerFencedException | OutOfOrderSequenceException fatal) {
                        throw fatal;
                    } catch (KafkaException abortable) {
                        producer.abortTransaction();
                    }
                }
            }
        }
        answer.put("attempts", attempts);
    }

    static void write(KafkaProducer<String, String> producer, JsonNode command, Transaction transaction)
            throws InterruptedException {
        String topic = command.get("topic").asText();
        for (int at = 0; at < transaction.values.length; at++)
            producer.send(new ProducerRecord<>(topic, transaction.partitions[at], null, transaction.values[at]));
        producer.flush();
        if (command.get("offsets").asBoolean())
            producer.sendOffsetsToTransaction(
                    Map.of(new TopicPartition(command.get("source").asText(), 0),
                            new OffsetAndMetadata(transaction.offset)),
                    new ConsumerGroupMetadata(command.get("group").asText()));
    }

    static void fence(JsonNode command, ObjectNode answer) {
        try (KafkaProducer<String, String> old = producer(command, 60000);
                KafkaProducer<String, String> next = producer(command, 60000)) {
            old.initTransactions();
            old.beginTransaction();
            old.send(new ProducerRecord<>(command.get("topic").asText(), 0, null, "of the old one"));
            old.flush();
            next.initTransactions();
            try {
                old.commitTransaction();
                answer.putNull("refused");
            } catch (KafkaException error) {
                answer.put("refused", error.getClass().getSimpleName());
                answer.put("is_fatal", error instanceof ProducerFencedException);
            }
        }
    }

    static KafkaConsumer<String, String> member(JsonNode command) {
        Properties settings = new Properties();
        String interval = command.get("poll_interval_ms").asText();
        settings.put("bootstrap.servers", command.get("bootstrap").asText());
        settings.put("group.id", command.get("group").asText());
        settings.put("group.protocol", command.get("protocol").asText());
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "earliest");
        settings.put("isolation.level", "read_committed");
        settings.put("max.poll.interval.ms", interval);
        settings.put("client.id", command.path("member").asText("member"));
        if (command.hasNonNull("instance")) settings.put("group.instance.id", command.get("instance").asText());
        if (command.get("protocol").asText().equals("classic")) {
            settings.put("session.timeout.ms", command.path("session_ms").asText(interval));
            settings.put("heartbeat.interval.ms", "300");
        } else {
            settings.put("max.poll.records", "5");
        }
        KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
        consumer.subscribe(List.of(command.get("source").asText()));
        return consumer;
    }

    static Map<TopicPartition, OffsetAndMetadata> offsetsAfter(KafkaConsumer<String, String> consumer, int count) {
        for (int read = 0; read < count; ) read += consumer.poll(Duration.ofMillis(200)).count();
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        for (TopicPartition one : consumer.assignment())
            offsets.put(one, new OffsetAndMetadata(consumer.position(one)));
        return offsets;
    }

    static Zombie begun;

    /** A member within its transaction. */
    static class Zombie implements AutoCloseable {
        final KafkaConsumer<String, String> member;
        final KafkaProducer<String, String> producer;
        final Map<TopicPartition, OffsetAndMetadata> offsets;

        Zombie(JsonNode command) {
            member = member(command);
            producer = producer(command, 60000);
            offsets = offsetsAfter(member, 5);
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(command.get("topic").asText(), 0, null, "of the zombie"));
            producer.flush();
        }

        void commit(ObjectNode answer) {
            try {
                producer.sendOffsetsToTransaction(offsets, member.groupMetadata());
                producer.commitTransaction();
                answer.putNull("refused");
            } catch (KafkaException error) {
                answer.put("refused", error.getClass().getSimpleName());
                producer.abortTransaction();
            }
        }

        @Override
        public void close() {
            producer.close();
            member.close(Duration.ofSeconds(2));
        }
    }

    /** A member whose group goes on without it, since it does not poll, commits its transaction all the same. */
    static void zombie(JsonNode command, ObjectNode answer) {
        String topic = command.get("topic").asText();
        ObjectNode successor = command.deepCopy();
        successor.put("id", command.get("id").asText() + "-new");
        try (Zombie old = new Zombie(command);
                KafkaConsumer<String, String> next = member(command);
                KafkaProducer<String, String> other = producer(successor, 60000)) {
            Map<TopicPartition, OffsetAndMetadata> taken = offsetsAfter(next, command.get("count").asInt());
            other.initTransactions();
            other.beginTransaction();
            other.send(new ProducerRecord<>(topic, 0, null, "of the new one"));
            other.sendOffsetsToTransaction(taken, next.groupMetadata());
            other.commitTransaction();
            old.commit(answer);
        }
    }

    static void overstay(JsonNode command, ObjectNode answer) throws Exception {
        try (KafkaProducer<String, String> producer = producer(command, 1000)) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(command.get("topic").asText(), 0, null, "too late"));
            producer.flush();
            Thread.sleep((long) (command.get("seconds").asDouble() * 1000));
            try {
                producer.commitTransaction();
                answer.putNull("refused");
            } catch (KafkaException error) {
                answer.put("refused", error.getClass().getSimpleName());
            }
        }
    }
}
