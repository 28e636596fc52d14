import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/**
 * Asks the assignors of Kafka's consumer. A line is one question, its words parted by blanks:
 * - assign NAME TOPICS MEMBERS: what each member gets, in order. TOPICS are NAME=RACKS/RACKS..., one for each
 *   partition, parted by commas; MEMBERS are ID|INSTANCE|RACK|GENERATION|USERDATA|TOPICS|OWNED;
 * - data NAME GENERATION PARTITIONS: the user data of a member that got these partitions;
 * - bytes MEMBER: its subscription in all versions, and its owned partitions as an assignment.
 * Lists within are parted by dots, and "-" stands for nothing.
 */
public class AssignorPeer {
    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream output = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String answer;
            try {
                answer = answer(line.split(" "));
            } catch (Exception error) {
                answer = "error " + error;
            }
            output.print(answer + "\n");
        }
        output.flush();
    }

    static String answer(String[] words) {
        switch (words[0]) {
            case "assign":
                return assign(assignor(words[1]), words[2], words[3]);
            case "data":
                ConsumerPartitionAssignor assignor = assignor(words[1]);
                int generation = Integer.parseInt(words[2]);
                assignor.onAssignment(new Assignment(partitions(words[3])),
                    new ConsumerGroupMetadata("g", generation, "m", Optional.empty()));
                return hex(assignor.subscriptionUserData(Set.of()));
            default:
                Subscription subscription = subscription(words[1].split("\\|"));
                List<String> found = new ArrayList<>();
                for (short version = 0; version <= 3; version++)
                    found.add(hex(ConsumerProtocol.serializeSubscription(subscription, version)));
                Assignment assignment = new Assignment(subscription.ownedPartitions(), subscription.userData());
                found.add(hex(ConsumerProtocol.serializeAssignment(assignment)));
                return String.join(" ", found);
        }
    }

    static String hex(ByteBuffer buffer) {
        if (buffer == null) return "-";
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return HexFormat.of().formatHex(bytes);
    }

    static ConsumerPartitionAssignor assignor(String name) {
        switch (name) {
            case "range": return new RangeAssignor();
            case "roundrobin": return new RoundRobinAssignor();
            case "sticky": return new StickyAssignor();
            default: return new CooperativeStickyAssignor();
        }
    }

    static String assign(ConsumerPartitionAssignor assignor, String topics, String members) {
        Map<String, Subscription> subscriptions = new HashMap<>();
        for (String member : members.split(",")) {
            String[] parts = member.split("\\|");
            subscriptions.put(parts[0], subscription(parts));
        }
        Map<String, Assignment> assigned =
            assignor.assign(cluster(topics), new GroupSubscription(subscriptions)).groupAssignment();
        return assigned.entrySet().stream()
            .map(entry -> entry.getKey() + "=" + entry.getValue().partitions().stream()
                .map(partition -> partition.topic() + ":" + partition.partition())
                .collect(Collectors.joining(".")))
            .collect(Collectors.joining(","));
    }

    static Subscription subscription(String[] parts) {
        ByteBuffer data = parts[4].equals("-") ? null : ByteBuffer.wrap(HexFormat.of().parseHex(parts[4]));
        Optional<String> rack = parts[2].equals("-") ? Optional.empty() : Optional.of(parts[2]);
        Subscription subscription = new Subscription(
            words(parts[5]), data, partitions(parts[6]), Integer.parseInt(parts[3]), rack);
        subscription.setGroupInstanceId(parts[1].equals("-") ? Optional.empty() : Optional.of(parts[1]));
        return subscription;
    }

    static List<String> words(String text) {
        return text.equals("-") ? new ArrayList<>() : new ArrayList<>(List.of(text.split("\\.")));
    }

    static List<TopicPartition> partitions(String text) {
        List<TopicPartition> found = new ArrayList<>();
        for (String word : words(text)) {
            String[] parts = word.split(":");
            found.add(new TopicPartition(parts[0], Integer.parseInt(parts[1])));
        }
        return found;
    }

    static Cluster cluster(String topics) {
        Map<String, Node> nodes = new HashMap<>();
        List<PartitionInfo> partitions = new ArrayList<>();
        for (String topic : topics.split(",")) {
            String[] parts = topic.split("=");
            String[] racks = parts[1].split("/");
            for (int index = 0; index < racks.length; index++) {
                Node[] replicas = words(racks[index]).stream()
                    .map(rack -> nodes.computeIfAbsent(rack, name -> new Node(nodes.size(), "h", 1, name)))
                    .toArray(Node[]::new);
                partitions.add(new PartitionInfo(parts[0], index, null, replicas, replicas));
            }
        }
        return new Cluster("c", nodes.values(), partitions, Collections.emptySet(), Collections.emptySet());
    }
}
