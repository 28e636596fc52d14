import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.lang.reflect.ParameterizedType;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Map;
import java.util.Random;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.types.BoundField;
import org.apache.kafka.common.protocol.types.RawTaggedField;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.common.protocol.types.TaggedFields;
import org.apache.kafka.common.protocol.types.Type;
import org.apache.kafka.common.record.internal.MemoryRecords;

/**
 * Random instances of Kafka's messages. Which fields a version has, and which of them may be null, is read off
 * the schemas in Kafka's classes: nothing here comes from our declarations.
 */
final class RandomMessages {
    private static final String LETTERS = "abcxyz019.-_ \u00e9\u00fc\u20ac\u0000";
    private static final int FIRST_UNKNOWN_TAG = 1000;

    private final Random random;

    RandomMessages(long seed) {
        this.random = new Random(seed);
    }

    Message message(Class<?> type, short version) throws Exception {
        Message message = (Message) type.getDeclaredConstructor().newInstance();
        Schema schema = ((Schema[]) type.getField("SCHEMAS").get(null))[version];
        for (BoundField field : schema.fields()) {
            if (field.def.type instanceof TaggedFields tagged) {
                for (org.apache.kafka.common.protocol.types.Field one : tagged.fields().values()) {
                    set(message, one.name, one.type, version);
                }
                addUnknownTags(message);
            } else {
                set(message, field.def.name, field.def.type, version);
            }
        }
        return message;
    }

    private void addUnknownTags(Message message) {
        int tag = FIRST_UNKNOWN_TAG;
        while (random.nextInt(100) < 15) {
            tag += 1 + random.nextInt(30_000);
            message.unknownTaggedFields().add(new RawTaggedField(tag, bytes()));
        }
    }

    private void set(Message message, String name, Type type, short version) throws Exception {
        Map<String, Field> fields = ValueDump.fields(message.getClass());
        Field field = fields.get(name.replace("_", "").toLowerCase());
        if (field == null) {
            throw new IllegalStateException(message.getClass() + " has no field for " + name);
        }
        boolean mustBeSet = field.get(message) == null && !isNullable(message, field, type);
        if (!mustBeSet && random.nextInt(4) == 0) {
            return;
        }
        field.set(message, value(message, field, type, version));
    }

    /** Kafka's type of records claims to be nullable in every message; the one of this message is not. */
    private static boolean isNullable(Message message, Field field, Type type) {
        return type.isNullable() && !field.getName().equals("unalignedRecords");
    }

    private Object value(Message message, Field field, Type type, short version) throws Exception {
        if (isNullable(message, field, type) && random.nextInt(5) == 0) {
            return null;
        }
        if (!Collection.class.isAssignableFrom(field.getType())) {
            return scalar(field.getType(), type, version);
        }
        Type elementType = type.arrayElementType().orElseThrow();
        Class<?> elementClass = elementClass(field);
        int count = new int[] {0, 1, 1, 2, 3}[random.nextInt(5)];
        if (!Message.class.isAssignableFrom(elementClass) && random.nextInt(30) == 0) {
            count = 200;
        }
        return collection(field, elementClass, elementType, count, version);
    }

    private Object collection(Field field, Class<?> elementClass, Type elementType, int count, short version)
            throws Exception {
        if (field.getType() == java.util.List.class) {
            ArrayList<Object> list = new ArrayList<>();
            for (int index = 0; index < count; index++) {
                list.add(scalar(elementClass, elementType, version));
            }
            return list;
        }
        // A collection with keys; "mustAdd" is what the generated reader calls too.
        Object collection = field.getType().getConstructor(int.class).newInstance(count);
        Method add = Collection.class.getMethod("add", Object.class);
        for (int index = 0; index < count; index++) {
            add.invoke(collection, scalar(elementClass, elementType, version));
        }
        return collection;
    }

    private static Class<?> elementClass(Field field) {
        if (field.getGenericType() instanceof ParameterizedType list) {
            return (Class<?>) list.getActualTypeArguments()[0];
        }
        ParameterizedType keyed = (ParameterizedType) field.getType().getGenericSuperclass();
        return (Class<?>) keyed.getActualTypeArguments()[0];
    }

    private Object scalar(Class<?> javaType, Type type, short version) throws Exception {
        if (Message.class.isAssignableFrom(javaType)) {
            return message(javaType, version);
        } else if (javaType == boolean.class || javaType == Boolean.class) {
            return random.nextBoolean();
        } else if (javaType == byte.class || javaType == Byte.class) {
            return (byte) number(Byte.MIN_VALUE, Byte.MAX_VALUE);
        } else if (javaType == short.class || javaType == Short.class) {
            return (short) number(Short.MIN_VALUE, Short.MAX_VALUE);
        } else if (javaType == int.class || javaType == Integer.class) {
            boolean unsigned = type == Type.UINT16;
            return (int) (unsigned ? number(0, 0xffff) : number(Integer.MIN_VALUE, Integer.MAX_VALUE));
        } else if (javaType == long.class || javaType == Long.class) {
            boolean unsigned = type == Type.UNSIGNED_INT32;
            return unsigned ? number(0, 0xffff_ffffL) : number(Long.MIN_VALUE, Long.MAX_VALUE);
        } else if (javaType == double.class) {
            return random.nextGaussian();
        } else if (javaType == Uuid.class) {
            return new Uuid(random.nextLong(), random.nextLong());
        } else if (javaType == String.class) {
            return text();
        } else if (javaType == byte[].class) {
            return bytes();
        } else if (javaType == ByteBuffer.class) {
            return ByteBuffer.wrap(bytes());
        }
        return MemoryRecords.readableRecords(ByteBuffer.wrap(bytes()));
    }

    private long number(long low, long high) {
        return switch (random.nextInt(4)) {
            case 0 -> low;
            case 1 -> high;
            case 2 -> low == 0 ? 1 : 0;
            default -> high == Long.MAX_VALUE ? random.nextLong() : low + Math.floorMod(random.nextLong(), high - low + 1);
        };
    }

    private int length() {
        return random.nextInt(20) == 0 ? 300 : new int[] {0, 1, 5, 12, 20}[random.nextInt(5)];
    }

    private byte[] bytes() {
        byte[] bytes = new byte[length()];
        random.nextBytes(bytes);
        return bytes;
    }

    private String text() {
        StringBuilder text = new StringBuilder();
        int length = length();
        for (int index = 0; index < length; index++) {
            text.append(LETTERS.charAt(random.nextInt(LETTERS.length())));
        }
        return text.toString();
    }
}
