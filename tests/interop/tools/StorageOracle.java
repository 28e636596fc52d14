import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Stream;
import kafka.tools.StorageTool;

/** Runs Kafka's storage tool for each command line on standard input: {remove: [paths], arguments: [...]}. */
public class StorageOracle {
    public static void main(String[] ignored) throws Exception {
        ObjectMapper json = new ObjectMapper();
        ArrayNode answers = json.createArrayNode();
        PrintStream console = System.out;
        for (JsonNode one : json.readTree(System.in)) {
            for (JsonNode path : one.get("remove"))
                remove(Path.of(path.asText()));
            List<String> arguments = new ArrayList<>();
            one.get("arguments").forEach(argument -> arguments.add(argument.asText()));
            ByteArrayOutputStream output = new ByteArrayOutputStream();
            ByteArrayOutputStream errors = new ByteArrayOutputStream();
            System.setErr(new PrintStream(errors, true));
            PrintStream stream = new PrintStream(output, true);
            System.setOut(stream);
            int code;
            try {
                code = StorageTool.execute(arguments.toArray(new String[0]), stream);
            } catch (Throwable error) {
                code = 1;
                System.err.println(error.getMessage());
            }
            ObjectNode answer = answers.addObject();
            answer.put("code", code);
            answer.put("output", output.toString(StandardCharsets.UTF_8));
            answer.put("errors", errors.toString(StandardCharsets.UTF_8));
        }
        console.println(json.writeValueAsString(answers));
    }

    static void remove(Path path) throws IOException {
        if (Files.exists(path))
            try (Stream<Path> files = Files.walk(path)) {
                for (Path file : files.sorted(Comparator.reverseOrder()).toList())
                    Files.delete(file);
            }
    }
}
