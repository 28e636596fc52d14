import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.types.RawTaggedField;
import org.apache.kafka.common.record.internal.MemoryRecords;

/**
 * All values of a message as one line of text that says no more than they do, so that another language can
 * write the same line: fields in the order of their names, which are lower case and without underscores.
 */
final class ValueDump {
    private static final Map<Class<?>, Map<String, Field>> FIELDS = new HashMap<>();

    private ValueDump() {
    }

    static String of(Message message) throws Exception {
        StringBuilder line = new StringBuilder();
        append(line, message);
        return line.toString();
    }

    /** The fields that hold values, by name: not those of a collection's element, nor the unknown tags. */
    static Map<String, Field> fields(Class<?> type) {
        return FIELDS.computeIfAbsent(type, __ -> {
            Map<String, Field> found = new TreeMap<>();
            for (Field field : type.getDeclaredFields()) {
                String name = field.getName();
                boolean isLink = Modifier.isPrivate(field.getModifiers());
                if (!Modifier.isStatic(field.getModifiers()) && !isLink) {
                    field.setAccessible(true);
                    found.put(name.toLowerCase(), field);
                }
            }
            return found;
        });
    }

    private static void append(StringBuilder line, Object value) throws Exception {
        if (value == null) {
            line.append("null");
        } else if (value instanceof Message message) {
            appendMessage(line, message);
        } else if (value instanceof Collection<?> values) {
            line.append('[');
            for (Object element : values) {
                append(line, element);
                line.append(',');
            }
            line.append(']');
        } else if (value instanceof String text) {
            hex(line.append('s'), ByteBuffer.wrap(text.getBytes(StandardCharsets.UTF_8)));
        } else if (value instanceof byte[] bytes) {
            hex(line.append('b'), ByteBuffer.wrap(bytes));
        } else if (value instanceof ByteBuffer buffer) {
            hex(line.append('b'), buffer.duplicate());
        } else if (value instanceof MemoryRecords records) {
            hex(line.append('b'), records.buffer());
        } else if (value instanceof Uuid uuid) {
            line.append('u').append(String.format("%016x%016x", uuid.getMostSignificantBits(), uuid.getLeastSignificantBits()));
        } else if (value instanceof Double number) {
            line.append('f').append(String.format("%016x", Double.doubleToRawLongBits(number)));
        } else if (value instanceof Number || value instanceof Boolean) {
            line.append(value);
        } else {
            throw new IllegalStateException("no dump for " + value.getClass());
        }
    }

    private static void appendMessage(StringBuilder line, Message message) throws Exception {
        line.append('{');
        for (Map.Entry<String, Field> entry : fields(message.getClass()).entrySet()) {
            line.append(entry.getKey()).append(':');
            append(line, entry.getValue().get(message));
            line.append(',');
        }
        List<RawTaggedField> unknown = new ArrayList<>(message.unknownTaggedFields());
        unknown.sort((one, other) -> Integer.compare(one.tag(), other.tag()));
        for (RawTaggedField field : unknown) {
            hex(line.append('~').append(field.tag()).append(':'), ByteBuffer.wrap(field.data()));
            line.append(',');
        }
        line.append('}');
    }

    private static void hex(StringBuilder line, ByteBuffer bytes) {
        while (bytes.hasRemaining()) {
            int value = bytes.get() & 0xff;
            line.append(Character.forDigit(value >> 4, 16)).append(Character.forDigit(value & 15, 16));
        }
    }
}
