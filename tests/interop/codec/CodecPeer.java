import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.File;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import java.util.TreeMap;
import java.util.jar.JarEntry;
import java.util.jar.JarFile;
import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

/**
 * Kafka's own message classes on the other end of a pipe.
 *
 * <p>With the argument "list": a line for every generated message on the class path. With "exchange":
 * answers commands from standard input until it ends. A command is a letter, a class name and what it needs:
 * D the default instance; R version bytes: read and written again; G version seed count: random instances;
 * X version bytes other: read in one version and written in the other; J version bytes: read, and the
 * tools' JSON of it in place of the dump. An answer is a status (0 fine,
 * 1 refused) and then pairs of (bytes, dump of all values), or the reason.
 */
public final class CodecPeer {
    private static final String[] PACKAGES = {
        "org/apache/kafka/common/message/",
        "org/apache/kafka/common/metadata/",
        "org/apache/kafka/coordinator/group/generated/",
        "org/apache/kafka/coordinator/share/generated/",
        "org/apache/kafka/coordinator/transaction/generated/",
        "org/apache/kafka/raft/generated/",
        "org/apache/kafka/server/log/remote/metadata/storage/generated/",
    };

    private final Map<String, Class<?>> classes = new HashMap<>();
    private final DataInputStream in;
    private final DataOutputStream out;

    private CodecPeer(DataInputStream in, DataOutputStream out) {
        this.in = in;
        this.out = out;
    }

    public static void main(String[] arguments) throws Exception {
        if (arguments[0].equals("list")) {
            list();
            return;
        }
        DataOutputStream out = new DataOutputStream(new BufferedOutputStream(System.out, 1 << 20));
        new CodecPeer(new DataInputStream(new BufferedInputStream(System.in, 1 << 20)), out).exchange();
        out.flush();
    }

    /** Name, lowest and highest version of every message, whichever jar it is in. */
    private static void list() throws Exception {
        TreeMap<String, String> found = new TreeMap<>();
        for (String path : System.getProperty("java.class.path").split(File.pathSeparator)) {
            if (!new File(path).getName().startsWith("kafka")) {
                continue;
            }
            try (JarFile jar = new JarFile(path)) {
                for (JarEntry entry : Collections.list(jar.entries())) {
                    describe(entry.getName(), found);
                }
            }
        }
        found.values().forEach(System.out::println);
    }

    private static void describe(String entry, Map<String, String> found) throws Exception {
        if (!entry.endsWith(".class") || entry.contains("$") || !isGenerated(entry)) {
            return;
        }
        Class<?> type = Class.forName(entry.substring(0, entry.length() - 6).replace('/', '.'));
        if (Message.class.isAssignableFrom(type)) {
            Message message = (Message) type.getDeclaredConstructor().newInstance();
            short low = message.lowestSupportedVersion();
            short high = message.highestSupportedVersion();
            found.put(type.getName(), type.getName() + "\t" + low + "\t" + high);
        }
    }

    private static boolean isGenerated(String entry) {
        for (String name : PACKAGES) {
            if (entry.startsWith(name) && entry.indexOf('/', name.length()) < 0) {
                return true;
            }
        }
        return false;
    }

    private void exchange() throws Exception {
        while (true) {
            int command;
            try {
                command = in.readUnsignedByte();
            } catch (EOFException end) {
                return;
            }
            Class<?> type = type(in.readUTF());
            switch (command) {
                case 'D' -> answer(create(type), null);
                case 'R' -> readAndWrite(type, in.readShort(), bytes(), null);
                case 'X' -> readAndWrite(type, in.readShort(), bytes(), in.readShort());
                case 'J' -> json(type, in.readShort(), bytes());
                case 'G' -> generate(type, in.readShort(), in.readLong(), in.readInt());
                default -> throw new IOException("unknown command " + command);
            }
        }
    }

    private void readAndWrite(Class<?> type, short version, byte[] bytes, Short other) throws Exception {
        ByteBuffer buffer = ByteBuffer.wrap(bytes);
        Message message = create(type);
        byte[] written;
        try {
            message.read(new ByteBufferAccessor(buffer), version);
            if (buffer.hasRemaining()) {
                throw new IllegalStateException(buffer.remaining() + " bytes were not read");
            }
            written = write(message, other == null ? version : other);
        } catch (UnsupportedVersionException | NullPointerException refusal) {
            out.writeByte(1);
            out.writeUTF(refusal.getClass().getSimpleName() + ": " + refusal.getMessage());
            return;
        }
        answer(message, written);
    }

    private void json(Class<?> type, short version, byte[] bytes) throws Exception {
        Message message = create(type);
        message.read(new ByteBufferAccessor(ByteBuffer.wrap(bytes)), version);
        Class<?> converter = Class.forName(type.getName() + "JsonConverter");
        Object tree = converter.getMethod("write", type, short.class).invoke(null, message, version);
        answer(tree.toString(), new byte[0]);
    }

    private void generate(Class<?> type, short version, long seed, int count) throws Exception {
        RandomMessages random = new RandomMessages(seed);
        for (int index = 0; index < count; index++) {
            Message message = random.message(type, version);
            answer(message, write(message, version));
        }
    }

    private void answer(Message message, byte[] written) throws Exception {
        answer(ValueDump.of(message), written == null ? new byte[0] : written);
    }

    private void answer(String text, byte[] bytes) throws Exception {
        out.writeByte(0);
        out.writeInt(bytes.length);
        out.write(bytes);
        byte[] dump = text.getBytes("UTF-8");
        out.writeInt(dump.length);
        out.write(dump);
    }

    private static byte[] write(Message message, short version) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer buffer = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(buffer), cache, version);
        if (buffer.hasRemaining()) {
            throw new IllegalStateException("the size and the bytes of " + message.getClass() + " differ");
        }
        return buffer.array();
    }

    private byte[] bytes() throws IOException {
        byte[] bytes = new byte[in.readInt()];
        in.readFully(bytes);
        return bytes;
    }

    private static Message create(Class<?> type) throws Exception {
        return (Message) type.getDeclaredConstructor().newInstance();
    }

    private Class<?> type(String name) throws ClassNotFoundException {
        Class<?> type = classes.get(name);
        if (type == null) {
            type = Class.forName(name);
            classes.put(name, type);
        }
        return type;
    }
}
