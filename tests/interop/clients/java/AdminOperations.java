import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.AlterConfigsOptions;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.CreatePartitionsOptions;
import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.DescribeClusterResult;
import org.apache.kafka.clients.admin.FeatureMetadata;
import org.apache.kafka.clients.admin.ListOffsetsResult;
import org.apache.kafka.clients.admin.LogDirDescription;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.ProducerState;
import org.apache.kafka.clients.admin.QuorumInfo;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.config.ConfigResource;

/** The admin client's half of ClientAgent: one method for each operation, answers as plain JSON. */
final class AdminOperations {
    private AdminOperations() { }

    static ObjectNode serve(JsonNode request) throws Exception {
        try (Admin admin = Admin.create(ClientAgent.properties(request))) {
            switch (request.get("op").asText()) {
                case "create_topic":
                    return createTopic(admin, request);
                case "delete_topic":
                    admin.deleteTopics(List.of(request.get("topic").asText())).all().get();
                    return empty();
                case "create_partitions":
                    return createPartitions(admin, request);
                case "describe_topic":
                    return describeTopic(admin, request);
                case "describe_configs":
                    return describeConfigs(admin, request);
                case "alter_configs":
                    return alterConfigs(admin, request);
                case "list_offset":
                    return listOffset(admin, request);
                case "delete_records":
                    return deleteRecords(admin, request);
                case "describe_cluster":
                    return describeCluster(admin);
                case "log_dirs":
                    return logDirs(admin, request);
                case "describe_producers":
                    return describeProducers(admin, request);
                case "describe_quorum":
                    return describeQuorum(admin);
                case "describe_features":
                    return describeFeatures(admin);
                default:
                    throw new IllegalArgumentException("unknown operation " + request);
            }
        }
    }

    private static ObjectNode empty() {
        return ClientAgent.JSON.createObjectNode();
    }

    private static ArrayNode list() {
        return ClientAgent.JSON.createArrayNode();
    }

    private static TopicPartition partition(JsonNode request) {
        return new TopicPartition(request.get("topic").asText(), request.get("partition").asInt());
    }

    private static List<Integer> integers(JsonNode node) {
        List<Integer> values = new ArrayList<>();
        node.forEach(value -> values.add(value.asInt()));
        return values;
    }

    private static ObjectNode createTopic(Admin admin, JsonNode request) throws Exception {
        String name = request.get("topic").asText();
        JsonNode assignments = request.get("assignments");
        NewTopic topic;
        if (assignments.isNull()) {
            int partitions = request.get("partitions").asInt();
            int replication = request.get("replication").asInt();
            topic = new NewTopic(name,
                partitions == -1 ? Optional.empty() : Optional.of(partitions),
                replication == -1 ? Optional.empty() : Optional.of((short) replication));
        } else {
            Map<Integer, List<Integer>> replicas = new HashMap<>();
            for (int index = 0; index < assignments.size(); index++) {
                replicas.put(index, integers(assignments.get(index)));
            }
            topic = new NewTopic(name, replicas);
        }
        Map<String, String> configs = new HashMap<>();
        request.get("configs").properties().forEach(e -> configs.put(e.getKey(), e.getValue().asText()));
        boolean validateOnly = request.get("validate_only").asBoolean();
        admin.createTopics(List.of(topic.configs(configs)), new CreateTopicsOptions().validateOnly(validateOnly))
            .all().get();
        return empty();
    }

    private static ObjectNode createPartitions(Admin admin, JsonNode request) throws Exception {
        int total = request.get("total").asInt();
        JsonNode assignments = request.get("assignments");
        NewPartitions partitions;
        if (assignments.isNull()) {
            partitions = NewPartitions.increaseTo(total);
        } else {
            List<List<Integer>> replicas = new ArrayList<>();
            assignments.forEach(node -> replicas.add(integers(node)));
            partitions = NewPartitions.increaseTo(total, replicas);
        }
        boolean validateOnly = request.get("validate_only").asBoolean();
        admin.createPartitions(Map.of(request.get("topic").asText(), partitions),
            new CreatePartitionsOptions().validateOnly(validateOnly)).all().get();
        return empty();
    }

    private static ArrayNode ids(List<Node> nodes) {
        ArrayNode ids = list();
        nodes.forEach(node -> ids.add(node.id()));
        return ids;
    }

    private static ObjectNode describeTopic(Admin admin, JsonNode request) throws Exception {
        String name = request.get("topic").asText();
        TopicDescription topic = admin.describeTopics(List.of(name)).allTopicNames().get().get(name);
        ArrayNode partitions = list();
        for (TopicPartitionInfo info : topic.partitions()) {
            int leader = info.leader() == null ? -1 : info.leader().id();
            partitions.add(list().add(info.partition()).add(leader)
                .add(ids(info.replicas())).add(ids(info.isr())));
        }
        ObjectNode answer = empty();
        answer.set("partitions", partitions);
        return answer;
    }

    private static ConfigResource resource(JsonNode request) {
        ConfigResource.Type type = ConfigResource.Type.valueOf(request.get("kind").asText().toUpperCase());
        return new ConfigResource(type, request.get("name").asText());
    }

    private static ObjectNode describeConfigs(Admin admin, JsonNode request) throws Exception {
        ConfigResource resource = resource(request);
        ObjectNode entries = empty();
        for (ConfigEntry entry : admin.describeConfigs(List.of(resource)).all().get().get(resource).entries()) {
            entries.set(entry.name(), list().add(entry.value()).add(entry.source().name())
                .add(entry.isReadOnly()).add(entry.isSensitive()));
        }
        ObjectNode answer = empty();
        answer.set("entries", entries);
        return answer;
    }

    private static ObjectNode alterConfigs(Admin admin, JsonNode request) throws Exception {
        List<AlterConfigOp> operations = new ArrayList<>();
        for (JsonNode operation : request.get("operations")) {
            operations.add(new AlterConfigOp(
                new ConfigEntry(operation.get(1).asText(), operation.get(2).asText(null)),
                AlterConfigOp.OpType.valueOf(operation.get(0).asText().toUpperCase())));
        }
        boolean validateOnly = request.get("validate_only").asBoolean();
        admin.incrementalAlterConfigs(Map.of(resource(request), operations),
            new AlterConfigsOptions().validateOnly(validateOnly)).all().get();
        return empty();
    }

    private static OffsetSpec spec(JsonNode spec) {
        if (spec.isNumber()) {
            return OffsetSpec.forTimestamp(spec.asLong());
        }
        switch (spec.asText()) {
            case "earliest":
                return OffsetSpec.earliest();
            case "latest":
                return OffsetSpec.latest();
            case "max-timestamp":
                return OffsetSpec.maxTimestamp();
            case "earliest-local":
                return OffsetSpec.earliestLocal();
            default:
                return OffsetSpec.latestTiered();
        }
    }

    private static ObjectNode listOffset(Admin admin, JsonNode request) throws Exception {
        TopicPartition where = partition(request);
        ListOffsetsResult.ListOffsetsResultInfo info =
            admin.listOffsets(Map.of(where, spec(request.get("spec")))).partitionResult(where).get();
        return empty().put("offset", info.offset()).put("timestamp", info.timestamp());
    }

    private static ObjectNode deleteRecords(Admin admin, JsonNode request) throws Exception {
        TopicPartition where = partition(request);
        RecordsToDelete records = RecordsToDelete.beforeOffset(request.get("before").asLong());
        long low = admin.deleteRecords(Map.of(where, records)).lowWatermarks().get(where).get().lowWatermark();
        return empty().put("low_watermark", low);
    }

    private static ObjectNode describeCluster(Admin admin) throws Exception {
        DescribeClusterResult result = admin.describeCluster();
        ArrayNode nodes = list();
        for (Node node : result.nodes().get()) {
            nodes.add(list().add(node.id()).add(node.host()).add(node.port()));
        }
        ObjectNode answer = empty().put("cluster_id", result.clusterId().get());
        answer.put("controller", result.controller().get().id()).set("nodes", nodes);
        return answer;
    }

    private static ObjectNode logDirs(Admin admin, JsonNode request) throws Exception {
        int broker = request.get("broker").asInt();
        ObjectNode directories = empty();
        for (Map.Entry<String, LogDirDescription> directory :
                admin.describeLogDirs(List.of(broker)).allDescriptions().get().get(broker).entrySet()) {
            ObjectNode replicas = empty();
            directory.getValue().replicaInfos().forEach((where, replica) ->
                replicas.set(where.toString(), list().add(replica.size()).add(replica.offsetLag())
                    .add(replica.isFuture())));
            directories.set(directory.getKey(), replicas);
        }
        ObjectNode answer = empty();
        answer.set("directories", directories);
        return answer;
    }

    private static ObjectNode describeProducers(Admin admin, JsonNode request) throws Exception {
        TopicPartition where = partition(request);
        ArrayNode producers = list();
        for (ProducerState state :
                admin.describeProducers(List.of(where)).partitionResult(where).get().activeProducers()) {
            producers.add(list().add(state.producerId()).add(state.producerEpoch())
                .add(state.lastSequence()).add(state.coordinatorEpoch().orElse(-1))
                .add(state.currentTransactionStartOffset().orElse(-1)));
        }
        ObjectNode answer = empty();
        answer.set("producers", producers);
        return answer;
    }

    private static ObjectNode describeQuorum(Admin admin) throws Exception {
        QuorumInfo quorum = admin.describeMetadataQuorum().quorumInfo().get();
        ArrayNode voters = list();
        quorum.voters().forEach(voter -> voters.add(voter.replicaId()));
        ObjectNode answer = empty().put("leader", quorum.leaderId()).put("watermark", quorum.highWatermark());
        answer.set("voters", voters);
        return answer;
    }

    private static ObjectNode describeFeatures(Admin admin) throws Exception {
        FeatureMetadata features = admin.describeFeatures().featureMetadata().get();
        ObjectNode finalized = empty();
        features.finalizedFeatures().forEach((name, range) -> finalized.put(name, range.maxVersionLevel()));
        ObjectNode supported = empty();
        features.supportedFeatures().forEach((name, range) ->
            supported.set(name, list().add(range.minVersion()).add(range.maxVersion())));
        ObjectNode answer = empty();
        answer.set("finalized", finalized);
        answer.set("supported", supported);
        return answer;
    }
}
