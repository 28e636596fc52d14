import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Moves records from partition 0 of a topic, which it fills first, to partition 1, so many in each transaction
 * together with the offset they were read up to, and prints how long the transactions after the warm-up took.
 *
 * Arguments: bootstrap servers, topic, record size, records a transaction, transactions, transactions of
 * warm-up among them, seconds at most.
 */
public final class ReadProcessWrite {
    private ReadProcessWrite() {}

    public static void main(String[] arguments) {
        String topic = arguments[1];
        byte[] value = new byte[Integer.parseInt(arguments[2])];
        int records = Integer.parseInt(arguments[3]);
        int transactions = Integer.parseInt(arguments[4]);
        int warmUp = Integer.parseInt(arguments[5]);
        long deadline = System.nanoTime() + Long.parseLong(arguments[6]) * 1_000_000_000L;
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("key.serializer", ByteArraySerializer.class.getName());
        settings.put("value.serializer", ByteArraySerializer.class.getName());
        try (KafkaProducer<byte[], byte[]> filler = new KafkaProducer<>(settings)) {
            for (long number = 0; number < (long) records * transactions; number++) {
                filler.send(new ProducerRecord<>(topic, 0, null, value));
            }
        }
        settings.put("transactional.id", topic);
        Properties reading = new Properties();
        reading.put("bootstrap.servers", arguments[0]);
        reading.put("key.deserializer", ByteArrayDeserializer.class.getName());
        reading.put("value.deserializer", ByteArrayDeserializer.class.getName());
        reading.put("enable.auto.commit", "false");
        reading.put("auto.offset.reset", "earliest");
        reading.put("isolation.level", "read_committed");
        reading.put("max.poll.records", Integer.toString(records));
        reading.put("group.id", topic);
        TopicPartition from = new TopicPartition(topic, 0);
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings);
                KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(reading)) {
            producer.initTransactions();
            consumer.assign(List.of(from));
            long start = 0;
            int done = 0;
            long moved = 0;
            for (; moved < (long) records * transactions; done++) {
                if (System.nanoTime() > deadline) {
                    throw new IllegalStateException("Moved " + moved + " records in time.");
                }
                if (moved >= (long) records * warmUp && start == 0) {
                    start = System.nanoTime();
                    done = 0;
                }
                ConsumerRecords<byte[], byte[]> found = consumer.poll(Duration.ofMillis(500));
                if (found.isEmpty()) {
                    done--;
                    continue;
                }
                producer.beginTransaction();
                long end = 0;
                for (ConsumerRecord<byte[], byte[]> record : found) {
                    producer.send(new ProducerRecord<>(topic, 1, record.key(), record.value()));
                    end = record.offset() + 1;
                }
                producer.sendOffsetsToTransaction(
                        Map.of(from, new OffsetAndMetadata(end)), consumer.groupMetadata());
                producer.commitTransaction();
                moved += found.count();
            }
            System.out.printf(
                    "{\"transactions\": %d, \"seconds\": %.6f}%n", done, (System.nanoTime() - start) / 1e9);
        }
    }
}
