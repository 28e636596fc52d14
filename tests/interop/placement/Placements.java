import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Optional;
import java.util.Random;
import java.util.stream.Collectors;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.metadata.placement.ClusterDescriber;
import org.apache.kafka.metadata.placement.PartitionAssignment;
import org.apache.kafka.metadata.placement.PlacementSpec;
import org.apache.kafka.metadata.placement.StripedReplicaPlacer;
import org.apache.kafka.metadata.placement.UsableBroker;

/**
 * Places partitions with Kafka's own placer.
 *
 * A line: how to draw ("fixed" or "random") seed partitions replicas brokers, where brokers are
 * id/rack/fenced with "-" for no rack, separated by commas. The answer: the brokers of each partition, or
 * "error" and its text. A fixed draw depends on nothing but the seed and the bound, so that the order of the
 * draws does not matter.
 */
public class Placements {
    static class FixedDraws extends Random {
        private final long seed;

        FixedDraws(long seed) {
            this.seed = seed;
        }

        @Override
        public int nextInt(int bound) {
            return (int) ((seed * 31 + bound * 17L) % 1009 % bound);
        }
    }

    record Brokers(List<UsableBroker> all) implements ClusterDescriber {
        @Override
        public Iterator<UsableBroker> usableBrokers() {
            return all.iterator();
        }

        @Override
        public Uuid defaultDir(int brokerId) {
            return Uuid.ONE_UUID;
        }
    }

    static String answer(String line) {
        String[] words = line.split(" ");
        long seed = Long.parseLong(words[1]);
        Random random = words[0].equals("fixed") ? new FixedDraws(seed) : new Random(seed);
        List<UsableBroker> brokers = new ArrayList<>();
        for (String broker : words.length < 5 ? new String[0] : words[4].split(",")) {
            String[] parts = broker.split("/");
            Optional<String> rack = parts[1].equals("-") ? Optional.empty() : Optional.of(parts[1]);
            brokers.add(new UsableBroker(Integer.parseInt(parts[0]), rack, parts[2].equals("1")));
        }
        PlacementSpec spec = new PlacementSpec(0, Integer.parseInt(words[2]), Short.parseShort(words[3]));
        try {
            return new StripedReplicaPlacer(random).place(spec, new Brokers(brokers)).assignments().stream()
                .map(PartitionAssignment::replicas)
                .map(replicas -> replicas.stream().map(String::valueOf).collect(Collectors.joining(",")))
                .collect(Collectors.joining(" "));
        } catch (RuntimeException error) {
            return "error " + error.getMessage();
        }
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(answer(line));
        }
    }
}
