import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ScheduledFuture;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.message.LeaderChangeMessage;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.FileRecords;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.requests.ProduceRequest;
import org.apache.kafka.common.requests.ProduceResponse;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.Timer;
import org.apache.kafka.server.storage.log.FetchIsolation;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.storage.internals.log.LogAppendInfo;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.RecordValidationException;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/**
 * Answers what Kafka's own classes do with record batches. One question a line on stdin, one answer a line on
 * stdout; bytes are in hexadecimal, "-" is null or nothing.
 *
 *   read HEX                       every batch (b) and record (r) in the bytes
 *   build MAGIC CODEC LEVEL BASE-OFFSET TIMESTAMP-TYPE LOG-APPEND-TIME PRODUCER EPOCH SEQUENCE TRANSACTIONAL RECORDS
 *   append VERSION NOW LEADER-EPOCH CONFIGS HEX     what the leader's log does with a produced batch
 *   marker COMMIT PRODUCER EPOCH COORDINATOR-EPOCH TIMESTAMP BASE-OFFSET LEADER-EPOCH
 *   leader LEADER-EPOCH BASE-OFFSET TIMESTAMP
 */
public class RecordOracle {
    static final HexFormat HEX = HexFormat.of();
    static final FixedTime TIME = new FixedTime();
    static final Map<String, UnifiedLog> LOGS = new HashMap<>();
    static File directory;

    public static void main(String[] arguments) throws Exception {
        directory = new File(arguments[0]);
        PrintStream out = new PrintStream(new java.io.FileOutputStream(java.io.FileDescriptor.out), false);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ", -1);
            try {
                switch (words[0]) {
                    case "read" -> out.println("ok " + read(words[1]));
                    case "build" -> out.println("ok " + build(words));
                    case "append" -> out.println("ok " + append(words));
                    case "marker" -> out.println("ok " + marker(words));
                    case "leader" -> out.println("ok " + leader(words));
                    default -> throw new IllegalArgumentException(words[0]);
                }
            } catch (RecordValidationException refused) {
                String indexes = refused.recordErrors().stream()
                    .map(error -> String.valueOf(error.batchIndex)).collect(Collectors.joining(","));
                out.println("error " + Errors.forException(refused.invalidException()) + " " + indexes);
            } catch (Throwable refused) {
                out.println("error " + Errors.forException(refused) + " - " + refused);
            }
        }
        out.flush();
        System.exit(0);
    }

    static String hex(ByteBuffer buffer) {
        if (buffer == null) {
            return "-";
        }
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return "x" + HEX.formatHex(bytes);
    }

    static byte[] bytes(String text) {
        return text.equals("-") ? null : HEX.parseHex(text.substring(1));
    }

    static String read(String hex) {
        StringBuilder result = new StringBuilder();
        MemoryRecords records = MemoryRecords.readableRecords(ByteBuffer.wrap(bytes(hex)));
        for (RecordBatch batch : records.batches()) {
            batch.ensureValid();
            result.append("b,").append(batch.baseOffset()).append(',').append(batch.lastOffset())
                .append(',').append(batch.magic()).append(',').append(batch.maxTimestamp())
                .append(',').append(batch.timestampType().id).append(',').append(batch.compressionType().id)
                .append(',').append(batch.producerId()).append(',').append(batch.producerEpoch())
                .append(',').append(batch.baseSequence()).append(',').append(batch.lastSequence())
                .append(',').append(batch.isTransactional()).append(',').append(batch.isControlBatch())
                .append(',').append(batch.partitionLeaderEpoch())
                .append(',').append(batch.deleteHorizonMs().isPresent() ? batch.deleteHorizonMs().getAsLong() : "-")
                .append(',').append(batch.sizeInBytes()).append(',').append(batch.checksum()).append(';');
            for (Record record : batch) {
                record.ensureValid();
                result.append("r,").append(record.offset()).append(',').append(record.timestamp())
                    .append(',').append(hex(record.key())).append(',').append(hex(record.value()));
                for (Header header : record.headers()) {
                    byte[] value = header.value();
                    result.append(',').append("x").append(HEX.formatHex(header.key().getBytes(StandardCharsets.UTF_8)))
                        .append('=').append(value == null ? "-" : "x" + HEX.formatHex(value));
                }
                result.append(';');
            }
        }
        return result.toString();
    }

    static Compression compression(String name, String level) {
        CompressionType type = CompressionType.forName(name);
        if (level.equals("-")) {
            return Compression.of(type).build();
        }
        int number = Integer.parseInt(level);
        return switch (type) {
            case GZIP -> Compression.gzip().level(number).build();
            case LZ4 -> Compression.lz4().level(number).build();
            case ZSTD -> Compression.zstd().level(number).build();
            default -> Compression.of(type).build();
        };
    }

    static String build(String[] words) {
        MemoryRecordsBuilder builder = MemoryRecords.builder(
            ByteBuffer.allocate(512), Byte.parseByte(words[1]), compression(words[2], words[3]),
            TimestampType.forName(words[5]), Long.parseLong(words[4]), Long.parseLong(words[6]),
            Long.parseLong(words[7]), Short.parseShort(words[8]), Integer.parseInt(words[9]),
            Boolean.parseBoolean(words[10]), -1);
        for (String text : words[11].split(";")) {
            String[] fields = text.split(",");
            List<Header> headers = new ArrayList<>();
            for (int index = 3; index < fields.length; index++) {
                String[] pair = fields[index].split("=");
                headers.add(new RecordHeader(new String(bytes(pair[0]), StandardCharsets.UTF_8), bytes(pair[1])));
            }
            builder.append(Long.parseLong(fields[0]), bytes(fields[1]), bytes(fields[2]), headers.toArray(new Header[0]));
        }
        return hex(builder.build().buffer());
    }

    static String append(String[] words) throws Exception {
        TIME.now = Long.parseLong(words[2]);
        UnifiedLog log = LOGS.get(words[4]);
        if (log == null) {
            log = open(words[4]);
            LOGS.put(words[4], log);
        }
        MemoryRecords records = MemoryRecords.readableRecords(ByteBuffer.wrap(bytes(words[5])));
        ProduceRequest.validateRecords(Short.parseShort(words[1]), records);
        LogAppendInfo info = log.appendAsLeader(records, Integer.parseInt(words[3]));
        FileRecords stored = (FileRecords) log.read(
            info.firstOffset(), Integer.MAX_VALUE, FetchIsolation.LOG_END, true).records;
        ByteBuffer buffer = ByteBuffer.allocate(stored.sizeInBytes());
        stored.readInto(buffer, 0);
        return info.firstOffset() + " " + info.lastOffset() + " " + info.maxTimestamp() + " "
            + info.logAppendTime() + " " + hex(buffer);
    }

    static UnifiedLog open(String configs) throws Exception {
        Map<String, String> map = new HashMap<>();
        if (!configs.equals("-")) {
            for (String config : configs.split(";")) {
                map.put(config.split("=")[0], config.split("=")[1]);
            }
        }
        File folder = new File(directory, "topic" + LOGS.size() + "-0");
        Files.createDirectories(folder.toPath());
        return UnifiedLog.create(folder, new LogConfig(map), 0, 0, new NoScheduler(), new BrokerTopicStats(), TIME,
            300_000, new ProducerStateManagerConfig(86_400_000, false), 600_000, new LogDirFailureChannel(1), true,
            Optional.of(Uuid.randomUuid()));
    }

    static String marker(String[] words) {
        ControlRecordType type = Boolean.parseBoolean(words[1]) ? ControlRecordType.COMMIT : ControlRecordType.ABORT;
        return hex(MemoryRecords.withEndTransactionMarker(
            Long.parseLong(words[6]), Long.parseLong(words[5]), Integer.parseInt(words[7]), Long.parseLong(words[2]),
            Short.parseShort(words[3]), new EndTransactionMarker(type, Integer.parseInt(words[4]))).buffer());
    }

    static String leader(String[] words) {
        LeaderChangeMessage message = new LeaderChangeMessage().setVersion((short) 0).setLeaderId(7)
            .setVoters(List.of(new LeaderChangeMessage.Voter().setVoterId(7)))
            .setGrantingVoters(List.of(new LeaderChangeMessage.Voter().setVoterId(7)));
        return hex(MemoryRecords.withLeaderChangeMessage(
            Long.parseLong(words[2]), Long.parseLong(words[3]), Integer.parseInt(words[1]), ByteBuffer.allocate(512),
            message).buffer());
    }

    static class FixedTime implements Time {
        long now = 0;

        @Override public long milliseconds() {
            return now;
        }

        @Override public long nanoseconds() {
            return System.nanoTime();
        }

        @Override public long hiResClockMs() {
            return now;
        }

        @Override public void sleep(long ms) {
        }

        @Override public void waitObject(Object object, Supplier<Boolean> condition, long deadlineMs) {
            throw new UnsupportedOperationException();
        }

        @Override public Timer timer(long timeoutMs) {
            throw new UnsupportedOperationException();
        }
    }

    static class NoScheduler implements Scheduler {
        @Override public void startup() {
        }

        @Override public void shutdown() {
        }

        @Override public ScheduledFuture<?> schedule(String name, Runnable task, long delayMs, long periodMs) {
            return null;
        }

        @Override public void resizeThreadPool(int size) {
        }
    }
}
