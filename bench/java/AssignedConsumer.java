import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Reads a topic from its beginning several times with one consumer that has its partitions assigned, and
 * prints for each pass what it read and how long it took. The first pass warms the JVM up.
 *
 * Arguments: bootstrap servers, topic, partitions, records expected a pass, passes, seconds at most,
 * then any consumer settings as name=value.
 */
public final class AssignedConsumer {
    private AssignedConsumer() {}

    public static void main(String[] arguments) {
        String topic = arguments[1];
        int partitionCount = Integer.parseInt(arguments[2]);
        long expected = Long.parseLong(arguments[3]);
        int passes = Integer.parseInt(arguments[4]);
        long deadline = System.nanoTime() + Long.parseLong(arguments[5]) * 1_000_000_000L;
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("key.deserializer", ByteArrayDeserializer.class.getName());
        settings.put("value.deserializer", ByteArrayDeserializer.class.getName());
        settings.put("enable.auto.commit", "false");
        for (int index = 6; index < arguments.length; index++) {
            int sign = arguments[index].indexOf('=');
            settings.put(arguments[index].substring(0, sign), arguments[index].substring(sign + 1));
        }
        List<TopicPartition> partitions = new ArrayList<>();
        for (int index = 0; index < partitionCount; index++) {
            partitions.add(new TopicPartition(topic, index));
        }
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings)) {
            consumer.assign(partitions);
            for (int pass = 0; pass < passes; pass++) {
                readOnce(consumer, partitions, expected, deadline);
            }
        }
    }

    private static void readOnce(
            KafkaConsumer<byte[], byte[]> consumer, List<TopicPartition> partitions, long expected, long deadline) {
        consumer.seekToBeginning(partitions);
        long records = 0;
        long bytes = 0;
        long start = System.nanoTime();
        while (records < expected) {
            if (System.nanoTime() > deadline) {
                throw new IllegalStateException("Read " + records + " of " + expected + " records in time.");
            }
            ConsumerRecords<byte[], byte[]> found = consumer.poll(Duration.ofMillis(500));
            for (ConsumerRecord<byte[], byte[]> record : found) {
                records++;
                bytes += record.value().length;
            }
        }
        double seconds = (System.nanoTime() - start) / 1e9;
        System.out.printf("{\"records\": %d, \"bytes\": %d, \"seconds\": %.6f}%n", records, bytes, seconds);
    }
}
