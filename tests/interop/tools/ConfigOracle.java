import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import kafka.server.KafkaConfig;
import org.apache.kafka.common.Endpoint;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.coordinator.group.GroupConfig;
import org.apache.kafka.server.config.AbstractKafkaConfig;
import org.apache.kafka.server.config.DynamicBrokerConfig;
import org.apache.kafka.server.config.QuotaConfig;
import org.apache.kafka.server.config.ServerTopicConfigSynonyms;
import org.apache.kafka.server.metrics.ClientMetricsConfigs;
import org.apache.kafka.storage.internals.log.LogConfig;

/** What Kafka says of settings. One JSON document in, one out: {definitions: true, values: [...], nodes: [...]}. */
public class ConfigOracle {
    static final ObjectMapper JSON = new ObjectMapper();

    static final Map<String, ConfigDef> DEFINITIONS = Map.of(
        "broker", AbstractKafkaConfig.CONFIG_DEF,
        "dynamic-broker", QuotaConfig.brokerQuotaConfigs(),
        "topic", LogConfig.configDefCopy(),
        "group", GroupConfig.CONFIG_DEF,
        "client-metrics", ClientMetricsConfigs.configDef());

    public static void main(String[] arguments) throws Exception {
        JsonNode request = JSON.readTree(System.in);
        ObjectNode answer = JSON.createObjectNode();
        if (request.has("definitions"))
            answer.set("definitions", definitions());
        if (request.has("values"))
            answer.set("values", values(request.get("values")));
        if (request.has("nodes"))
            answer.set("nodes", nodes(request.get("nodes")));
        System.out.println(JSON.writeValueAsString(answer));
    }

    static ObjectNode definitions() {
        ObjectNode kinds = JSON.createObjectNode();
        Map<String, String> modes = DynamicBrokerConfig.dynamicConfigUpdateModes();
        DEFINITIONS.forEach((kind, definition) -> {
            ObjectNode settings = kinds.putObject(kind);
            new TreeMap<>(definition.configKeys()).forEach((name, key) -> {
                ObjectNode setting = settings.putObject(name);
                setting.put("type", key.type.toString());
                setting.put("required", key.defaultValue == ConfigDef.NO_DEFAULT_VALUE);
                if (key.hasDefault())
                    setting.put("default", ConfigDef.convertToString(key.defaultValue, key.type));
                setting.put("importance", key.importance.toString());
                setting.put("internal", key.internalConfig);
                setting.put("mode", modes.getOrDefault(name, "read-only"));
                ArrayNode synonyms = setting.putArray("synonyms");
                if (kind.equals("topic"))
                    ServerTopicConfigSynonyms.ALL_TOPIC_CONFIG_SYNONYMS.getOrDefault(name, List.of())
                        .forEach(synonym -> synonyms.add(synonym.name()));
                if (kind.equals("group"))
                    GroupConfig.brokerSynonym(name).ifPresent(synonyms::add);
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

    static ArrayNode nodes(JsonNode cases) {
        ArrayNode answers = JSON.createArrayNode();
        for (JsonNode one : cases) {
            Properties properties = new Properties();
            one.fields().forEachRemaining(entry -> properties.put(entry.getKey(), entry.getValue().asText()));
            ObjectNode answer = answers.addObject();
            try {
                KafkaConfig config = KafkaConfig.fromProps(properties, false);
                answer.put("node", config.nodeId());
                endpoints(answer.putArray("listeners"), scala.jdk.javaapi.CollectionConverters.asJava(config.listeners()));
                endpoints(answer.putArray("advertised"),
                    scala.jdk.javaapi.CollectionConverters.asJava(config.effectiveAdvertisedBrokerListeners()));
                endpoints(answer.putArray("controllers"),
                    scala.jdk.javaapi.CollectionConverters.asJava(config.effectiveAdvertisedControllerListeners()));
                answer.put("inter_broker", config.interBrokerListenerName().value());
                Set<String> early = new TreeSet<>();
                scala.jdk.javaapi.CollectionConverters.asJava(config.earlyStartListeners()).forEach(name -> early.add(name.value()));
                early.forEach(answer.putArray("early")::add);
                config.logDirs().forEach(answer.putArray("directories")::add);
                answer.put("metadata", config.metadataLogDir());
                ObjectNode log = answer.putObject("log");
                new TreeMap<>(config.extractLogConfigMap()).forEach((name, value) ->
                    log.put(name, ConfigDef.convertToString(value, LogConfig.configType(name).orElse(null))));
            } catch (Exception error) {
                List<String> messages = new ArrayList<>();
                for (Throwable cause = error; cause != null; cause = cause.getCause())
                    messages.add(String.valueOf(cause.getMessage()));
                answer.put("error", String.join(" / ", messages));
            }
        }
        return answers;
    }

    static void endpoints(ArrayNode into, Iterable<Endpoint> endpoints) {
        for (Endpoint endpoint : endpoints)
            into.addArray().add(endpoint.listener()).add(endpoint.securityProtocol().name)
                .add(endpoint.host() == null ? "" : endpoint.host()).add(endpoint.port());
    }
}
