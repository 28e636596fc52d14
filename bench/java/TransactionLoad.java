import java.util.Arrays;
import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * One transactional producer commits transactions of so many records, spread over all partitions in turn, one
 * transaction after the other, and prints how long those after the warm-up took.
 *
 * Arguments: bootstrap servers, topic, partitions, record size, records a transaction, transactions,
 * transactions of warm-up among them, then any producer settings as name=value.
 */
public final class TransactionLoad {
    private TransactionLoad() {}

    public static void main(String[] arguments) {
        String topic = arguments[1];
        int partitions = Integer.parseInt(arguments[2]);
        byte[] value = new byte[Integer.parseInt(arguments[3])];
        int records = Integer.parseInt(arguments[4]);
        int transactions = Integer.parseInt(arguments[5]);
        int warmUp = Integer.parseInt(arguments[6]);
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("key.serializer", ByteArraySerializer.class.getName());
        settings.put("value.serializer", ByteArraySerializer.class.getName());
        settings.put("transactional.id", topic);
        for (int index = 7; index < arguments.length; index++) {
            int sign = arguments[index].indexOf('=');
            settings.put(arguments[index].substring(0, sign), arguments[index].substring(sign + 1));
        }
        long[] ends = new long[transactions + 1];
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings)) {
            producer.initTransactions();
            ends[0] = System.nanoTime();
            for (int number = 0; number < transactions; number++) {
                producer.beginTransaction();
                for (int record = 0; record < records; record++) {
                    producer.send(new ProducerRecord<>(topic, record % partitions, null, value));
                }
                // The client may look whether it has unsent batches before these are there, and its commit after:
                // then it would commit first. A flush leaves nothing unsent.
                producer.flush();
                producer.commitTransaction();
                ends[number + 1] = System.nanoTime();
            }
        }
        long[] spans = new long[transactions - warmUp];
        for (int number = 0; number < spans.length; number++) {
            spans[number] = ends[warmUp + number + 1] - ends[warmUp + number];
        }
        Arrays.sort(spans);
        System.out.printf(
                "{\"transactions\": %d, \"seconds\": %.6f, \"p50_us\": %d, \"p99_us\": %d}%n",
                spans.length, (ends[transactions] - ends[warmUp]) / 1e9,
                spans[spans.length / 2] / 1000, spans[spans.length * 99 / 100] / 1000);
    }
}
