import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.HashMap;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.common.config.ConfigDef;

/**
 * What Kafka's clients say of settings. One JSON document in, one out:
 * {definitions: true, values: [[client, name, text]...], whole: [[client, {name: text}]...]}.
 */
public class ClientConfigOracle {
    static final ObjectMapper JSON = new ObjectMapper();

    static final Map<String, ConfigDef> DEFINITIONS = Map.of(
        "producer", ProducerConfig.configDef(),
        "consumer", ConsumerConfig.configDef(),
        "admin", AdminClientConfig.configDef());

    public static void main(String[] arguments) throws Exception {
        JsonNode request = JSON.readTree(System.in);
        ObjectNode answer = JSON.createObjectNode();
        answer.set("definitions", definitions());
        answer.set("values", values(request.path("values")));
        answer.set("whole", whole(request.path("whole")));
        System.out.println(JSON.writeValueAsString(answer));
    }

    static ObjectNode definitions() {
        ObjectNode kinds = JSON.createObjectNode();
        DEFINITIONS.forEach((kind, definition) -> {
            ObjectNode settings = kinds.putObject(kind);
            new TreeMap<>(definition.configKeys()).forEach((name, key) -> {
                ObjectNode setting = settings.putObject(name);
                setting.put("type", key.type.toString());
                setting.put("required", key.defaultValue == ConfigDef.NO_DEFAULT_VALUE);
                setting.put("default", key.hasDefault() ? ConfigDef.convertToString(key.defaultValue, key.type) : null);
                setting.put("importance", key.importance.toString());
            });
        });
        return kinds;
    }

    static ArrayNode values(JsonNode cases) {
        ArrayNode answers = JSON.createArrayNode();
        for (JsonNode one : cases) {
            ConfigDef.ConfigKey key = DEFINITIONS.get(one.get(0).asText()).configKeys().get(one.get(1).asText());
            ObjectNode answer = answers.addObject();
            try {
                Object value = new ConfigDef().define(key).parse(Map.of(key.name, one.get(2).asText())).get(key.name);
                answer.put("value", ConfigDef.convertToString(value, key.type));
            } catch (Exception error) {
                answer.put("error", error.getMessage());
            }
        }
        return answers;
    }

    static ArrayNode whole(JsonNode cases) {
        ArrayNode answers = JSON.createArrayNode();
        for (JsonNode one : cases) {
            Map<String, Object> given = new HashMap<>();
            one.get(1).fields().forEachRemaining(entry -> given.put(entry.getKey(), entry.getValue().asText()));
            ObjectNode answer = answers.addObject();
            try {
                config(one.get(0).asText(), given).values().forEach((name, value) ->
                    answer.put(name, value instanceof Class ? null : String.valueOf(value)));
            } catch (Exception error) {
                answer.put("error", String.valueOf(error.getMessage()));
            }
        }
        return answers;
    }

    static AbstractConfig config(String client, Map<String, Object> given) {
        String coder = "org.apache.kafka.common.serialization.ByteArray";
        if (client.equals("producer")) {
            given.put("key.serializer", coder + "Serializer");
            given.put("value.serializer", coder + "Serializer");
            return new ProducerConfig(given);
        }
        if (client.equals("consumer")) {
            given.put("key.deserializer", coder + "Deserializer");
            given.put("value.deserializer", coder + "Deserializer");
            return new ConsumerConfig(given);
        }
        return new AdminClientConfig(given);
    }
}
