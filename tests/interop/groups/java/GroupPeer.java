import com.google.re2j.Pattern;
import com.google.re2j.PatternSyntaxException;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.GroupSpec;
import org.apache.kafka.coordinator.group.api.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.assignor.PartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

/**
 * Answers what Kafka's own assignors and regular expressions do. One question a line on stdin, one answer a line
 * on stdout.
 *
 *   regex HEX NAME...      "refused", or "ok" and a 0 or 1 for each name; HEX is the expression in UTF-8
 *   assign STEP ASSIGNOR TYPE TOPICS MEMBERS
 *       STEP      "new" for a new group, "next" if the last assignment was this group's
 *       TYPE      HOMOGENEOUS or HETEROGENEOUS
 *       TOPICS    HEX-ID:PARTITIONS,...
 *       MEMBERS   ID/INSTANCE/RACK/INHERITS/TOPIC.TOPIC,...   topics by their number; "-" is nothing; INHERITS is
 *                 the member whose assignment it takes over
 *     "ok MEMBERS TOPICS BEFORE AFTER": members and topics in the order in which Kafka's maps hold them, and what
 *     every member had and gets as ID=TOPIC:PARTITION.PARTITION/TOPIC:...,...
 *   time REPEATS           the last assignment again: microseconds of its first run, and of the best one
 */
public class GroupPeer {
    static final Map<String, PartitionAssignor> ASSIGNORS =
        Map.of("range", new RangeAssignor(), "uniform", new UniformAssignor());

    static Map<String, Assignment> targets = new HashMap<>();
    static List<Uuid> topicIds = List.of();
    static PartitionAssignor assignor;
    static GroupSpec spec;
    static Topics topics;
    static long firstMicros;

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ", -1);
            out.print(switch (words[0]) {
                case "regex" -> regex(words);
                case "assign" -> assign(words);
                case "time" -> time(Integer.parseInt(words[1]));
                default -> throw new IllegalArgumentException(line);
            });
            out.print('\n');
        }
        out.flush();
    }

    // --- regular expressions ---

    static String regex(String[] words) {
        String text = new String(HexFormat.of().parseHex(words[1]), StandardCharsets.UTF_8);
        Pattern pattern;
        try {
            pattern = Pattern.compile(text);
        } catch (PatternSyntaxException refused) {
            return "refused";
        } catch (RuntimeException | StackOverflowError failed) {
            return "failed " + failed.getClass().getSimpleName();
        }
        StringBuilder answer = new StringBuilder("ok ");
        for (int index = 2; index < words.length; index++) {
            answer.append(pattern.matcher(words[index]).matches() ? '1' : '0');
        }
        return answer.toString();
    }

    // --- assignors ---

    /** What the assignors ask about topics. */
    record Topics(Map<Uuid, Integer> counts) implements SubscribedTopicDescriber {
        @Override
        public int numPartitions(Uuid topicId) {
            return counts.getOrDefault(topicId, -1);
        }

        @Override
        public Set<String> racksForPartition(Uuid topicId, int partition) {
            return Set.of("rack-" + partition % 3);
        }
    }

    static String assign(String[] words) {
        Map<String, Assignment> before = words[1].equals("new") ? Map.of() : targets;
        assignor = ASSIGNORS.get(words[2]);
        topics = new Topics(readTopics(words[4]));
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new HashMap<>();
        for (String text : words[5].split(",")) {
            String[] fields = text.split("/", -1);
            Set<Uuid> wanted = new HashSet<>();
            for (String number : fields[4].equals("-") ? new String[0] : fields[4].split("\\.")) {
                wanted.add(topicIds.get(Integer.parseInt(number)));
            }
            Assignment own = before.getOrDefault(fields[3].equals("-") ? fields[0] : fields[3], Assignment.EMPTY);
            members.put(fields[0],
                new MemberSubscriptionAndAssignmentImpl(optional(fields[2]), optional(fields[1]), wanted, own));
        }
        Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
        members.forEach((member, it) -> it.partitions().forEach((topic, partitions) -> {
            partitions.forEach(p -> owners.computeIfAbsent(topic, unused -> new HashMap<>()).put(p, member));
        }));
        spec = new GroupSpecImpl(members, SubscriptionType.valueOf(words[3]), owners);

        long start = System.nanoTime();
        GroupAssignment result = assignor.assign(spec, topics);
        firstMicros = (System.nanoTime() - start) / 1000;

        Set<Uuid> visited = new HashSet<>(members.values().iterator().next().subscribedTopicIds());
        List<Uuid> order = new ArrayList<>(visited);
        topicIds.stream().filter(id -> !visited.contains(id)).forEach(order::add);
        targets = new HashMap<>();
        Map<String, Map<Uuid, Set<Integer>>> had = new LinkedHashMap<>();
        Map<String, Map<Uuid, Set<Integer>>> gets = new LinkedHashMap<>();
        for (String member : members.keySet()) {
            had.put(member, members.get(member).partitions());
            MemberAssignment share = result.members().get(member);
            gets.put(member, share == null ? Map.of() : share.partitions());
            targets.put(member, stored(gets.get(member)));
        }
        return "ok " + String.join(",", members.keySet()) + " " + numbers(order) + " " + text(had) + " " + text(gets);
    }

    static String time(int repeats) {
        long best = Long.MAX_VALUE;
        for (int repeat = 0; repeat < repeats; repeat++) {
            long start = System.nanoTime();
            assignor.assign(spec, topics);
            best = Math.min(best, System.nanoTime() - start);
        }
        return firstMicros + " " + best / 1000;
    }

    /** As an assignment is after it has been written to the log and read again. */
    static Assignment stored(Map<Uuid, Set<Integer>> share) {
        Map<Uuid, Set<Integer>> copy = new HashMap<>();
        share.forEach((topic, partitions) -> copy.put(topic, new HashSet<>(new ArrayList<>(partitions))));
        return new Assignment(copy);
    }

    static Map<Uuid, Integer> readTopics(String text) {
        Map<Uuid, Integer> counts = new LinkedHashMap<>();
        for (String topic : text.split(",")) {
            String[] fields = topic.split(":");
            ByteBuffer id = ByteBuffer.wrap(HexFormat.of().parseHex(fields[0]));
            counts.put(new Uuid(id.getLong(), id.getLong()), Integer.parseInt(fields[1]));
        }
        topicIds = List.copyOf(counts.keySet());
        return counts;
    }

    static Optional<String> optional(String text) {
        return text.equals("-") ? Optional.empty() : Optional.of(text);
    }

    static String numbers(List<Uuid> ids) {
        return ids.stream().map(id -> String.valueOf(topicIds.indexOf(id))).collect(Collectors.joining("."));
    }

    static String text(Map<String, Map<Uuid, Set<Integer>>> shares) {
        return shares.entrySet().stream()
            .map(share -> share.getKey() + "=" + share.getValue().entrySet().stream()
                .map(topic -> topicIds.indexOf(topic.getKey()) + ":" + topic.getValue().stream()
                    .map(String::valueOf).collect(Collectors.joining(".")))
                .collect(Collectors.joining("/")))
            .collect(Collectors.joining(","));
    }
}
