import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Reads a topic from its beginning several times with two consumers by turns, one of which reads only what is
 * committed, and prints for each pass how long each of them took. Whoever was second in a pass is first in the
 * next.
 *
 * Arguments: bootstrap servers, topic, partitions, records expected a pass, passes, seconds at most.
 */
public final class CommittedReads {
    private CommittedReads() {}

    public static void main(String[] arguments) {
        List<TopicPartition> partitions = new ArrayList<>();
        for (int index = 0; index < Integer.parseInt(arguments[2]); index++) {
            partitions.add(new TopicPartition(arguments[1], index));
        }
        long expected = Long.parseLong(arguments[3]);
        int passes = Integer.parseInt(arguments[4]);
        long deadline = System.nanoTime() + Long.parseLong(arguments[5]) * 1_000_000_000L;
        try (KafkaConsumer<byte[], byte[]> committed = consumer(arguments[0], "read_committed", partitions);
                KafkaConsumer<byte[], byte[]> uncommitted =
                        consumer(arguments[0], "read_uncommitted", partitions)) {
            for (int pass = 0; pass < passes; pass++) {
                double[] seconds = new double[2];
                for (int turn = 0; turn < 2; turn++) {
                    int way = (pass + turn) % 2;
                    seconds[way] = readOnce(way == 0 ? committed : uncommitted, partitions, expected, deadline);
                }
                System.out.printf("{\"committed_s\": %.6f, \"uncommitted_s\": %.6f}%n", seconds[0], seconds[1]);
            }
        }
    }

    private static KafkaConsumer<byte[], byte[]> consumer(
            String bootstrap, String isolation, List<TopicPartition> partitions) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("key.deserializer", ByteArrayDeserializer.class.getName());
        settings.put("value.deserializer", ByteArrayDeserializer.class.getName());
        settings.put("enable.auto.commit", "false");
        settings.put("isolation.level", isolation);
        KafkaConsumer<byte[], byte[]> made = new KafkaConsumer<>(settings);
        made.assign(partitions);
        return made;
    }

    private static double readOnce(
            KafkaConsumer<byte[], byte[]> consumer, List<TopicPartition> partitions, long expected, long deadline) {
        consumer.seekToBeginning(partitions);
        long records = 0;
        long start = System.nanoTime();
        while (records < expected) {
            if (System.nanoTime() > deadline) {
                throw new IllegalStateException("Read " + records + " of " + expected + " records in time.");
            }
            records += consumer.poll(Duration.ofMillis(500)).count();
        }
        return (System.nanoTime() - start) / 1e9;
    }
}
