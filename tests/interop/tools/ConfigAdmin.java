import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.DescribeConfigsOptions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.protocol.Errors;

/**
 * Steps on a live broker, by Kafka's admin client. In: [[command, ...], ...], out: an answer for each.
 * create topic {configs} | alter TYPE name [[setting, OPERATION, value], ...] | describe TYPE name
 */
public class ConfigAdmin {
    static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        ArrayNode answers = JSON.createArrayNode();
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", arguments[0]))) {
            for (JsonNode step : JSON.readTree(System.in)) {
                try {
                    answers.add(run(admin, step));
                } catch (ExecutionException error) {
                    ObjectNode answer = answers.addObject();
                    answer.put("code", Errors.forException(error.getCause()).code());
                    answer.put("message", error.getCause().getMessage());
                }
            }
        }
        System.out.println(JSON.writeValueAsString(answers));
    }

    static JsonNode run(Admin admin, JsonNode step) throws Exception {
        if (step.get(0).asText().equals("create")) {
            Map<String, String> configs = JSON.convertValue(step.get(2), Map.class);
            NewTopic topic = new NewTopic(step.get(1).asText(), 1, (short) 1).configs(configs);
            return entries(admin.createTopics(List.of(topic)).config(topic.name()).get());
        }
        ConfigResource resource = new ConfigResource(
            ConfigResource.Type.valueOf(step.get(1).asText()), step.get(2).asText());
        if (step.get(0).asText().equals("describe")) {
            DescribeConfigsOptions options = new DescribeConfigsOptions().includeSynonyms(true);
            return entries(admin.describeConfigs(List.of(resource), options).all().get().get(resource));
        }
        List<AlterConfigOp> operations = new ArrayList<>();
        for (JsonNode change : step.get(3))
            operations.add(new AlterConfigOp(
                new ConfigEntry(change.get(0).asText(), change.get(2).asText()),
                AlterConfigOp.OpType.valueOf(change.get(1).asText())));
        admin.incrementalAlterConfigs(Map.of(resource, operations)).all().get();
        return JSON.createObjectNode().put("code", 0);
    }

    static ArrayNode entries(Config config) {
        ArrayNode entries = JSON.createArrayNode();
        for (ConfigEntry entry : config.entries()) {
            ArrayNode row = entries.addArray();
            row.add(entry.name()).add(entry.value()).add(entry.source().toString()).add(String.valueOf(entry.type()));
            row.add(entry.isSensitive()).add(entry.isReadOnly());
            ArrayNode synonyms = row.addArray();
            for (ConfigEntry.ConfigSynonym synonym : entry.synonyms())
                synonyms.addArray().add(synonym.name()).add(synonym.value()).add(synonym.source().toString());
        }
        return entries;
    }
}
