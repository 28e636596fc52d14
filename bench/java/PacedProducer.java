import java.util.Arrays;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Sends records at a steady pace and prints the latency of their acknowledgements in microseconds, which
 * Kafka's own tool counts in whole milliseconds. A latency runs from the moment a record was due, so that a
 * slow answer is not hidden by the records that it held up.
 *
 * Arguments: bootstrap servers, topic, record size, records a second, records, records of warm-up among
 * them, then any producer settings as name=value.
 */
public final class PacedProducer {
    private PacedProducer() {}

    public static void main(String[] arguments) {
        String topic = arguments[1];
        byte[] value = new byte[Integer.parseInt(arguments[2])];
        Arrays.fill(value, (byte) 'x');
        long intervalNs = 1_000_000_000L / Long.parseLong(arguments[3]);
        int count = Integer.parseInt(arguments[4]);
        int warmUp = Integer.parseInt(arguments[5]);
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("key.serializer", ByteArraySerializer.class.getName());
        settings.put("value.serializer", ByteArraySerializer.class.getName());
        for (int index = 6; index < arguments.length; index++) {
            int sign = arguments[index].indexOf('=');
            settings.put(arguments[index].substring(0, sign), arguments[index].substring(sign + 1));
        }
        long[] latencies = new long[count];
        AtomicLong failures = new AtomicLong();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings)) {
            producer.partitionsFor(topic);
            long start = System.nanoTime();
            for (int number = 0; number < count; number++) {
                int place = number;
                long due = start + number * intervalNs;
                for (long left = due - System.nanoTime(); left > 0; left = due - System.nanoTime()) {
                    LockSupport.parkNanos(left);
                }
                producer.send(new ProducerRecord<>(topic, value), (metadata, error) -> {
                    latencies[place] = System.nanoTime() - due;
                    if (error != null) {
                        failures.incrementAndGet();
                    }
                });
            }
        }
        if (failures.get() > 0) {
            throw new IllegalStateException(failures.get() + " of " + count + " records failed.");
        }
        long[] kept = Arrays.copyOfRange(latencies, warmUp, count);
        Arrays.sort(kept);
        System.out.printf(
                "{\"p50_us\": %d, \"p95_us\": %d, \"p99_us\": %d, \"p999_us\": %d, \"max_us\": %d}%n",
                at(kept, 0.5), at(kept, 0.95), at(kept, 0.99), at(kept, 0.999), kept[kept.length - 1] / 1000);
    }

    private static long at(long[] sorted, double share) {
        return sorted[(int) (sorted.length * share)] / 1000;
    }
}
