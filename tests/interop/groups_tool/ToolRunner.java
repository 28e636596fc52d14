import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs Kafka's tools one after the other in one JVM. A line in: [main class, argument, ...];
 * a line out: {exit, out, err} as they stood when the tool first asked to exit, or when it returned.
 * A line in may also be {"stdin": text, "command": [...]}. What tools leave for the end of the JVM is done
 * when they end.
 */
public class ToolRunner {
    static final ObjectMapper JSON = new ObjectMapper();

    static final class Exited extends RuntimeException { }

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        PrintStream errors = System.err;
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonNode command = JSON.readTree(line);
            String input = command.path("stdin").asText("");
            System.setIn(new ByteArrayInputStream(input.getBytes(StandardCharsets.UTF_8)));
            ObjectNode answer = run(command.isArray() ? command : command.get("command"));
            System.setOut(answers);
            System.setErr(errors);
            answers.println(JSON.writeValueAsString(answer));
            answers.flush();
        }
    }

    static ObjectNode run(JsonNode command) throws Exception {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        ByteArrayOutputStream err = new ByteArrayOutputStream();
        System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(err, true, StandardCharsets.UTF_8));
        ObjectNode answer = JSON.createObjectNode();
        Exit.setExitProcedure((code, message) -> {
            settle(answer, code, out, err);
            throw new Exited();
        });
        List<Runnable> hooks = new ArrayList<>();
        Exit.setShutdownHookAdder((name, hook) -> hooks.add(hook));
        String[] arguments = new String[command.size() - 1];
        for (int index = 0; index < arguments.length; index++)
            arguments[index] = command.get(index + 1).asText();
        try {
            Class.forName(command.get(0).asText()).getMethod("main", String[].class)
                .invoke(null, (Object) arguments);
        } catch (InvocationTargetException error) {
            if (!(error.getCause() instanceof Exited)) {
                error.getCause().printStackTrace();
                settle(answer, 1, out, err);
            }
        }
        settle(answer, 0, out, err);
        hooks.forEach(Runnable::run);
        return answer;
    }

    static void settle(ObjectNode answer, int code, ByteArrayOutputStream out, ByteArrayOutputStream err) {
        if (answer.has("exit"))
            return;
        System.out.flush();
        System.err.flush();
        answer.put("exit", code);
        answer.put("out", out.toString(StandardCharsets.UTF_8));
        answer.put("err", err.toString(StandardCharsets.UTF_8));
    }
}
