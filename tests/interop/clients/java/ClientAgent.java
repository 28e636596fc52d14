import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * The Java client behind a pipe: each line on standard input is one request in JSON, each is answered by one
 * line on standard output. One JVM serves a whole test run, because starting one costs more than most tests.
 */
public final class ClientAgent {
    static final ObjectMapper JSON = new ObjectMapper();
    private static final Duration POLL = Duration.ofMillis(200);
    private static final List<Future<RecordMetadata>> sent = new ArrayList<>();
    private static KafkaProducer<byte[], byte[]> producer;
    private static boolean stream;
    private static PrintStream out;

    public static void main(String[] arguments) throws Exception {
        out = System.out;
        System.setOut(System.err);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            ObjectNode answer;
            try {
                answer = serve(JSON.readTree(line));
            } catch (Throwable error) {
                answer = failure(error);
            }
            say(answer);
        }
    }

    private static synchronized void say(ObjectNode answer) throws Exception {
        out.println(JSON.writeValueAsString(answer));
        out.flush();
    }

    private static ObjectNode serve(JsonNode request) throws Exception {
        switch (request.get("op").asText()) {
            case "open_producer":
                openProducer(request);
                return JSON.createObjectNode();
            case "send":
                send(request);
                return JSON.createObjectNode();
            case "close_producer":
                return closeProducer();
            case "consume":
                return consume(request);
            default:
                return AdminOperations.serve(request);
        }
    }

    static ObjectNode failure(Throwable error) {
        Throwable cause = error;
        while (cause instanceof ExecutionException && cause.getCause() != null) {
            cause = cause.getCause();
        }
        ObjectNode answer = JSON.createObjectNode();
        answer.put("code", Errors.forException(cause).code());
        answer.put("error", cause.getClass().getSimpleName());
        answer.put("message", String.valueOf(cause.getMessage()));
        return answer;
    }

    static Properties properties(JsonNode request) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", request.get("bootstrap").asText());
        for (Map.Entry<String, JsonNode> entry : request.path("config").properties()) {
            properties.put(entry.getKey(), entry.getValue().asText());
        }
        return properties;
    }

    private static byte[] bytes(JsonNode node) {
        return node == null || node.isNull() ? null : Base64.getDecoder().decode(node.asText());
    }

    private static String text(byte[] bytes) {
        return bytes == null ? null : Base64.getEncoder().encodeToString(bytes);
    }

    private static ProducerRecord<byte[], byte[]> record(JsonNode request, JsonNode message) {
        List<Header> headers = new ArrayList<>();
        for (JsonNode header : message.get("headers")) {
            headers.add(new RecordHeader(header.get(0).asText(), bytes(header.get(1))));
        }
        JsonNode time = message.get("timestamp");
        Long timestamp = time == null || time.isNull() ? null : (Long) time.asLong();
        return new ProducerRecord<>(request.get("topic").asText(), (Integer) request.get("partition").asInt(),
            timestamp, bytes(message.get("key")), bytes(message.get("value")), headers);
    }

    private static void openProducer(JsonNode request) {
        ByteArraySerializer serializer = new ByteArraySerializer();
        producer = new KafkaProducer<>(properties(request), serializer, serializer);
        stream = request.get("stream").asBoolean();
        sent.clear();
    }

    private static void send(JsonNode request) {
        for (JsonNode message : request.get("messages")) {
            int index = sent.size();
            sent.add(producer.send(record(request, message), (metadata, error) -> {
                if (stream && error == null) {
                    acknowledge(index, metadata.offset());
                }
            }));
        }
    }

    private static ObjectNode closeProducer() throws Exception {
        ArrayNode offsets = JSON.createArrayNode();
        try {
            for (Future<RecordMetadata> future : sent) {
                offsets.add(future.get().offset());
            }
        } finally {
            producer.close();
        }
        ObjectNode answer = JSON.createObjectNode();
        answer.set("offsets", offsets);
        return answer;
    }

    private static void acknowledge(int index, long offset) {
        try {
            say(JSON.createObjectNode().put("acknowledged", index).put("offset", offset));
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    private static ObjectNode consume(JsonNode request) {
        TopicPartition where =
            new TopicPartition(request.get("topic").asText(), request.get("partition").asInt());
        int count = request.get("count").asInt();
        long deadline = System.nanoTime() + request.get("timeout_ms").asLong() * 1_000_000L;
        ByteArrayDeserializer deserializer = new ByteArrayDeserializer();
        ArrayNode records = JSON.createArrayNode();
        try (KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(properties(request), deserializer, deserializer)) {
            consumer.assign(List.of(where));
            consumer.seek(where, request.get("offset").asLong());
            while (records.size() < count && System.nanoTime() < deadline) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(POLL).records(where)) {
                    if (records.size() < count) {
                        records.add(stored(record));
                    }
                }
            }
        }
        ObjectNode answer = JSON.createObjectNode();
        answer.set("records", records);
        return answer;
    }

    private static ArrayNode stored(ConsumerRecord<byte[], byte[]> record) {
        ArrayNode headers = JSON.createArrayNode();
        for (Header header : record.headers()) {
            headers.add(JSON.createArrayNode().add(header.key()).add(text(header.value())));
        }
        ArrayNode fields = JSON.createArrayNode();
        fields.add(record.offset()).add(record.timestamp()).add(record.timestampType().id);
        fields.add(text(record.key())).add(text(record.value())).add(headers);
        return fields;
    }
}
