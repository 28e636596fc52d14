package org.apache.kafka.clients.producer.internals;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Deque;
import java.util.HexFormat;
import java.util.List;
import java.util.stream.Collectors;
import org.apache.kafka.clients.producer.RoundRobinPartitioner;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Utils;

/**
 * Asks Kafka's partitioners. A line is one question, its words parted by blanks:
 * - key HEX COUNT: the hash of a key and its partition among COUNT;
 * - robin LEADERS TIMES: the next partitions in turn, where LEADERS has a 1 for each partition with a leader;
 * - sticky BATCH LEADERS DRAWS STEPS...: the current partition at first and after each step, with these random
 *   numbers. A step is aBYTES/FULL (bytes were appended; the batches are full or not) or wSIZES/PARTITIONS/COUNT
 *   (queue sizes, out of so many queues).
 */
public class PartitionerPeer {
    static class Drawn extends BuiltInPartitioner {
        final Deque<Integer> draws = new ArrayDeque<>();

        Drawn(int batchSize, int[] numbers) {
            super(new LogContext(), "t", batchSize);
            for (int number : numbers) draws.add(number);
        }

        @Override
        int randomPartition() {
            return draws.remove();
        }
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        StringBuilder output = new StringBuilder();
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            output.append(answer(line.split(" "))).append('\n');
        }
        System.out.print(output);
    }

    static String answer(String[] words) {
        switch (words[0]) {
            case "key":
                byte[] key = HexFormat.of().parseHex(words[1].substring(1));
                return Utils.murmur2(key) + " " + BuiltInPartitioner.partitionForKey(key, Integer.parseInt(words[2]));
            case "robin":
                Cluster cluster = cluster(words[1]);
                RoundRobinPartitioner robin = new RoundRobinPartitioner();
                List<Integer> chosen = new ArrayList<>();
                for (int i = 0; i < Integer.parseInt(words[2]); i++)
                    chosen.add(robin.partition("t", null, null, null, null, cluster));
                return chosen.stream().map(String::valueOf).collect(Collectors.joining(","));
            default:
                return sticky(words);
        }
    }

    static String sticky(String[] words) {
        Drawn drawn = new Drawn(Integer.parseInt(words[1]), numbers(words[3]));
        Cluster cluster = cluster(words[2]);
        StringBuilder found = new StringBuilder();
        found.append(drawn.peekCurrentPartitionInfo(cluster).partition());
        for (int i = 4; i < words.length; i++) {
            String[] parts = words[i].substring(1).split("/", -1);
            if (words[i].charAt(0) == 'a') {
                drawn.updatePartitionInfo(drawn.peekCurrentPartitionInfo(cluster), Integer.parseInt(parts[0]),
                    cluster, parts[1].equals("1"));
            } else {
                int[] sizes = numbers(parts[0]);
                int count = Integer.parseInt(parts[2]);
                int[] padded = java.util.Arrays.copyOf(sizes, count);
                int[] partitions = java.util.Arrays.copyOf(numbers(parts[1]), count);
                drawn.updatePartitionLoadStats(padded, partitions, sizes.length);
            }
            found.append(',').append(drawn.peekCurrentPartitionInfo(cluster).partition());
        }
        return found.toString();
    }

    static int[] numbers(String text) {
        if (text.isEmpty()) return new int[0];
        String[] parts = text.split(",");
        int[] found = new int[parts.length];
        for (int i = 0; i < parts.length; i++) found[i] = Integer.parseInt(parts[i]);
        return found;
    }

    static Cluster cluster(String leaders) {
        Node node = new Node(0, "h", 1);
        Node[] none = new Node[0];
        List<PartitionInfo> partitions = new ArrayList<>();
        for (int i = 0; i < leaders.length(); i++)
            partitions.add(new PartitionInfo("t", i, leaders.charAt(i) == '1' ? node : null, none, none));
        return new Cluster("c", List.of(node), partitions, Collections.emptySet(), Collections.emptySet());
    }
}
