import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Optional;
import java.util.Properties;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import java.util.zip.CRC32;

import org.apache.kafka.common.message.FetchResponseData.AbortedTransaction;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.internal.FileRecords;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.Records;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.common.OffsetAndEpoch;
import org.apache.kafka.server.common.RequestLocal;
import org.apache.kafka.server.storage.log.FetchIsolation;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.storage.internals.log.AbortedTxn;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.Cleaner;
import org.apache.kafka.storage.internals.log.FetchDataInfo;
import org.apache.kafka.storage.internals.log.LogAppendInfo;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogStartOffsetIncrementReason;
import org.apache.kafka.storage.internals.log.LogToClean;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.SkimpyOffsetMap;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.log.VerificationGuard;
import org.apache.kafka.storage.internals.utils.Throttler;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/** Kafka's own log, driven by one command a line; each is answered by one line: "ok ..." or "error NAME". */
public class LogPeer {
    private static long nowMs = 0;
    private static final List<Runnable> DELAYED = new ArrayList<>();
    private static final ScheduledExecutorService NEVER = Executors.newSingleThreadScheduledExecutor(task -> {
        Thread thread = new Thread(task);
        thread.setDaemon(true);
        return thread;
    });

    private static UnifiedLog log;

    /** Time stands still until a command moves it. */
    private static final Time CLOCK = new Time() {
        @Override public long milliseconds() { return nowMs; }
        @Override public long nanoseconds() { return TimeUnit.MILLISECONDS.toNanos(nowMs); }
        @Override public void sleep(long ms) { nowMs += ms; }
        @Override public void waitObject(Object object, Supplier<Boolean> condition, long deadlineMs) { }
    };

    /** What is due at once runs at once; what has a delay waits for "purge"; what is periodic never runs. */
    private static final Scheduler SCHEDULER = new Scheduler() {
        @Override public void startup() { }
        @Override public void shutdown() { }
        @Override public void resizeThreadPool(int size) { }
        @Override public ScheduledFuture<?> schedule(String name, Runnable task, long delayMs, long periodMs) {
            if (periodMs < 0 && delayMs == 0)
                task.run();
            else if (periodMs < 0)
                DELAYED.add(task);
            return NEVER.schedule(() -> null, 1000, TimeUnit.DAYS);
        }
    };

    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        PrintStream output = new PrintStream(System.out, true);
        String line;
        while ((line = input.readLine()) != null) {
            String answer;
            try {
                answer = "ok " + answer(line.split(" "));
            } catch (Exception | StackOverflowError exception) {
                Errors error = Errors.forException(exception);
                boolean unnamed = error == Errors.UNKNOWN_SERVER_ERROR;
                answer = "error " + (unnamed ? exception.toString().replace('\n', ' ') : error.name());
            }
            output.println(answer.trim());
        }
    }

    private static String answer(String[] words) throws Exception {
        return switch (words[0]) {
            case "open" -> open(words);
            case "time" -> {
                nowMs = Long.parseLong(words[1]);
                yield "";
            }
            case "append" -> append(words);
            case "follow" -> appended(log.appendAsFollower(records(words[2]), Integer.parseInt(words[1])));
            case "watermark" -> "" + log.updateHighWatermark(Long.parseLong(words[1]));
            case "roll" -> "" + log.roll().baseOffset();
            case "truncate" -> "" + log.truncateTo(Long.parseLong(words[1]));
            case "restart" -> {
                log.truncateFullyAndStartAt(Long.parseLong(words[1]), Optional.empty());
                yield "";
            }
            case "start" -> "" + log.maybeIncrementLogStartOffset(
                Long.parseLong(words[1]), LogStartOffsetIncrementReason.ClientRecordDeletion);
            case "retain" -> "" + log.deleteOldSegments();
            case "purge" -> {
                for (Runnable task : DELAYED)
                    task.run();
                DELAYED.clear();
                yield "";
            }
            case "flush" -> {
                log.flush(false);
                yield "";
            }
            case "find" -> found(log.fetchOffsetByTimestamp(Long.parseLong(words[1]), Optional.empty()).timestampAndOffsetOpt());
            case "epoch" -> log.endOffsetForEpoch(Integer.parseInt(words[1]))
                .map((OffsetAndEpoch end) -> end.epoch() + " " + end.offset()).orElse("-1 -1");
            case "read" -> read(words);
            case "aborted" -> aborted(Long.parseLong(words[1]), Long.parseLong(words[2]));
            case "clean" -> clean(Long.parseLong(words[1]));
            case "state" -> state();
            case "close" -> {
                log.close();
                yield "";
            }
            default -> throw new IllegalArgumentException("no such command: " + words[0]);
        };
    }

    private static String open(String[] words) throws Exception {
        Properties properties = new Properties();
        for (int place = 5; place < words.length; place++) {
            String[] pair = words[place].split("=", 2);
            properties.put(pair[0], pair[1]);
        }
        log = UnifiedLog.create(new File(words[1]), new LogConfig(properties), Long.parseLong(words[3]),
            Long.parseLong(words[2]), SCHEDULER, new BrokerTopicStats(), CLOCK, 900_000,
            new ProducerStateManagerConfig(86_400_000, false), 600_000, new LogDirFailureChannel(5),
            Boolean.parseBoolean(words[4]), Optional.empty());
        return state();
    }

    private static MemoryRecords records(String text) {
        return MemoryRecords.readableRecords(ByteBuffer.wrap(Base64.getDecoder().decode(text)));
    }

    private static String append(String[] words) {
        AppendOrigin origin = AppendOrigin.valueOf(words[1]);
        short version = Short.parseShort(words[3]);
        return appended(log.appendAsLeader(records(words[4]), Integer.parseInt(words[2]), origin,
            RequestLocal.noCaching(), VerificationGuard.SENTINEL, version));
    }

    private static String appended(LogAppendInfo info) {
        return info.firstOffset() + " " + info.lastOffset() + " " + info.logAppendTime();
    }

    private static String found(Optional<FileRecords.TimestampAndOffset> found) {
        return found.map(it -> it.timestamp + " " + it.offset + " " + it.leaderEpoch.map(String::valueOf).orElse("none"))
            .orElse("none");
    }

    private static String read(String[] words) throws Exception {
        FetchIsolation isolation = FetchIsolation.valueOf(words[3]);
        FetchDataInfo info = log.read(Long.parseLong(words[1]), Integer.parseInt(words[2]), isolation, true);
        Records records = info.records;
        byte[] bytes;
        if (records instanceof FileRecords file) {
            ByteBuffer buffer = ByteBuffer.allocate(file.sizeInBytes());
            file.readInto(buffer, 0);
            bytes = new byte[buffer.limit()];
            buffer.get(bytes);
        } else {
            bytes = new byte[0];
        }
        CRC32 crc = new CRC32();
        crc.update(bytes);
        StringBuilder answer = new StringBuilder(bytes.length + " " + crc.getValue());
        for (AbortedTransaction aborted : info.abortedTransactions.orElse(List.of()))
            answer.append(" ").append(aborted.producerId()).append(":").append(aborted.firstOffset());
        return answer.toString();
    }

    private static String aborted(long first, long end) {
        StringBuilder answer = new StringBuilder();
        for (AbortedTxn entry : log.collectAbortedTransactions(first, end))
            answer.append(" ").append(entry.producerId()).append(":").append(entry.firstOffset())
                .append(":").append(entry.lastOffset()).append(":").append(entry.lastStableOffset());
        return answer.toString();
    }

    /** One cleaning from this offset on, of all that may be cleaned; where the log is dirty now. */
    private static String clean(long firstDirtyOffset) throws Exception {
        long bound = Math.min(log.lastStableOffset(), log.activeSegment().baseOffset());
        LogToClean cleanable = new LogToClean(log, firstDirtyOffset, Math.max(firstDirtyOffset, bound), true);
        Throttler throttler = new Throttler(Double.MAX_VALUE, Long.MAX_VALUE, "test", "bytes", CLOCK);
        Cleaner cleaner = new Cleaner(0, new SkimpyOffsetMap(1 << 20), 1 << 16, 1 << 20, 0.9, throttler, CLOCK, it -> { });
        return "" + cleaner.doClean(cleanable, nowMs).getKey();
    }

    private static String state() {
        return log.logStartOffset() + " " + log.logEndOffset() + " " + log.highWatermark() + " "
            + log.lastStableOffset() + " " + log.size() + " " + log.numberOfSegments();
    }
}
