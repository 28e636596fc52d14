/* Produces to, or consumes from, one topic with librdkafka as fast as it goes.
 *
 * Arguments: path of librdkafka, "produce" or "consume", bootstrap servers, topic, partitions, records,
 * record size, seconds at most, then any of librdkafka's settings as name=value. The library is opened by
 * its path, so that the one inside the confluent-kafka package serves without headers. The declarations
 * below are of librdkafka's stable ABI.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct {
    int err;
    void *topic;
    int32_t partition;
    void *payload;
    size_t len;
    void *key;
    size_t key_len;
    int64_t offset;
    void *private;
} message_t;

enum { PRODUCER = 0, CONSUMER = 1, CONF_OK = 0, COPY = 2, QUEUE_FULL = -184, BATCH = 10000 };
#define PARTITION_ANY (-1)
#define OFFSET_BEGINNING (-2)

#define FUNCTIONS(X)                                                                                          \
    X(void *, conf_new, (void))                                                                               \
    X(int, conf_set, (void *, const char *, const char *, char *, size_t))                                    \
    X(void, conf_set_dr_msg_cb, (void *, void (*)(void *, const message_t *, void *)))                        \
    X(void *, new, (int, void *, char *, size_t))                                                             \
    X(void *, topic_new, (void *, const char *, void *))                                                      \
    X(int, produce, (void *, int32_t, int, void *, size_t, const void *, size_t, void *))                     \
    X(int, poll, (void *, int))                                                                               \
    X(int, flush, (void *, int))                                                                              \
    X(int, last_error, (void))                                                                                \
    X(const char *, err2str, (int))                                                                           \
    X(int, query_watermark_offsets, (void *, const char *, int32_t, int64_t *, int64_t *, int))               \
    X(void *, queue_new, (void *))                                                                            \
    X(int, consume_start_queue, (void *, int32_t, int64_t, void *))                                           \
    X(ssize_t, consume_batch_queue, (void *, int, message_t **, size_t))                                      \
    X(void, message_destroy, (message_t *))
#define DECLARE(kind, name, parameters) static kind(*rd_##name) parameters;
FUNCTIONS(DECLARE)

static long delivered, failed;

static void die(const char *what, const char *why) {
    fprintf(stderr, "%s: %s\n", what, why);
    exit(1);
}

static void load(const char *path) {
    void *library = dlopen(path, RTLD_NOW);
    if (!library) die(path, dlerror());
#define LOAD(kind, name, parameters)                                                                          \
    *(void **)&rd_##name = dlsym(library, "rd_kafka_" #name);                                                 \
    if (!rd_##name) die(path, "lacks rd_kafka_" #name);
    FUNCTIONS(LOAD)
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void on_delivery(void *client, const message_t *message, void *opaque) {
    (void)client, (void)opaque;
    if (message->err) failed++;
    delivered++;
}

static void produce(void *client, void *topic, long records, size_t size, double deadline) {
    char *payload = malloc(size);
    memset(payload, 'x', size);
    for (long sent = 0; sent < records;) {
        if (!rd_produce(topic, PARTITION_ANY, COPY, payload, size, NULL, 0, NULL)) {
            if (++sent % 1000 == 0) rd_poll(client, 0);
        } else if (rd_last_error() == QUEUE_FULL) {
            rd_poll(client, 10);
        } else {
            die("produce", rd_err2str(rd_last_error()));
        }
        if (now() > deadline) die("produce", "did not end in time");
    }
    rd_flush(client, (int)((deadline - now()) * 1000));
    if (failed || delivered != records) die("produce", "not every record was delivered");
}

static void consume(void *client, void *topic, int partitions, long records, double deadline) {
    static message_t *messages[BATCH];
    void *queue = rd_queue_new(client);
    for (int partition = 0; partition < partitions; partition++) {
        if (rd_consume_start_queue(topic, partition, OFFSET_BEGINNING, queue))
            die("consume", rd_err2str(rd_last_error()));
    }
    while (delivered < records) {
        ssize_t count = rd_consume_batch_queue(queue, 500, messages, BATCH);
        for (ssize_t i = 0; i < count; i++) {
            if (messages[i]->err) die("consume", rd_err2str(messages[i]->err));
            rd_message_destroy(messages[i]);
        }
        if (count > 0) delivered += count;
        if (now() > deadline) die("consume", "did not end in time");
    }
}

int main(int count, char **arguments) {
    char problem[512];
    int64_t low, high;
    if (count < 9) return 2;
    load(arguments[1]);
    int is_producer = !strcmp(arguments[2], "produce");
    int partitions = atoi(arguments[5]);
    long records = atol(arguments[6]);
    size_t size = (size_t)atol(arguments[7]);
    double deadline = now() + atof(arguments[8]);
    void *settings = rd_conf_new();
    rd_conf_set(settings, "bootstrap.servers", arguments[3], problem, sizeof problem);
    for (int i = 9; i < count; i++) {
        char *sign = strchr(arguments[i], '=');
        if (!sign) return 2;
        *sign = 0;
        if (rd_conf_set(settings, arguments[i], sign + 1, problem, sizeof problem) != CONF_OK)
            die("setting", problem);
    }
    if (is_producer) rd_conf_set_dr_msg_cb(settings, on_delivery);
    void *client = rd_new(is_producer ? PRODUCER : CONSUMER, settings, problem, sizeof problem);
    if (!client) die("client", problem);
    void *topic = rd_topic_new(client, arguments[4], NULL);
    int error = rd_query_watermark_offsets(client, arguments[4], 0, &low, &high, 20000);
    if (error) die("connect", rd_err2str(error));
    double start = now();
    if (is_producer)
        produce(client, topic, records, size, deadline);
    else
        consume(client, topic, partitions, records, deadline);
    double seconds = now() - start;
    printf("{\"records\": %ld, \"bytes\": %ld, \"seconds\": %.6f}\n", records, records * (long)size, seconds);
    fflush(stdout);
    _Exit(0);
}
