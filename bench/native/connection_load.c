/* Many connections, one request in flight on each: sends the same frame again when its answer is whole.
 *
 * Arguments: port on 127.0.0.1, file with the frame (its size included), connections, requests in all,
 * seconds at most, and requests a second (0: as fast as it goes). At a pace the connections take turns, and
 * an answer's time counts from when its request was due. Prints how long the answers took, the first one in hexadecimal, and how many were not the
 * same as that one. One thread, so that the load takes little from the broker that it measures.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { ANSWER_BYTES_MAX = 4096, EVENTS_MAX = 256, CONNECTIONS_AT_ONCE = 10, CONNECT_PAUSE_US = 5000 };

struct connection {
    int socket;
    uint32_t filled;
    int is_busy;
    int64_t sent_ns;
    unsigned char answer[ANSWER_BYTES_MAX];
};

static char *frame;
static size_t frame_bytes;
static int64_t *latencies;
static long asked, answered, wanted, different;
static unsigned char first[ANSWER_BYTES_MAX];
static uint32_t first_bytes;
static int64_t pause_ns; /* between two requests, or 0 */

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void read_frame(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file) fail(path);
    fseek(file, 0, SEEK_END);
    frame_bytes = (size_t)ftell(file);
    rewind(file);
    frame = malloc(frame_bytes);
    if (!frame || fread(frame, 1, frame_bytes, file) != frame_bytes) fail(path);
    fclose(file);
}

static void ask(struct connection *connection, int64_t due_ns) {
    size_t done = 0;
    if (asked == wanted) return;
    asked++;
    connection->is_busy = 1;
    connection->sent_ns = due_ns;
    while (done < frame_bytes) {
        ssize_t count = send(connection->socket, frame + done, frame_bytes - done, MSG_NOSIGNAL);
        if (count < 0) fail("send");
        done += (size_t)count;
    }
}

static void take(struct connection *connection) {
    uint32_t size;
    ssize_t count = recv(connection->socket, connection->answer + connection->filled,
                         ANSWER_BYTES_MAX - connection->filled, 0);
    if (count <= 0) {
        fprintf(stderr, "the broker closed a connection: %s\n", count ? strerror(errno) : "end of stream");
        exit(1);
    }
    connection->filled += (uint32_t)count;
    if (connection->filled < 4) return;
    memcpy(&size, connection->answer, 4);
    size = ntohl(size) + 4;
    if (size > ANSWER_BYTES_MAX) {
        fprintf(stderr, "an answer of %u bytes is not one to this request\n", size);
        exit(1);
    }
    if (connection->filled < size) return;
    latencies[answered++] = now_ns() - connection->sent_ns;
    if (!first_bytes) memcpy(first, connection->answer, first_bytes = size);
    if (size != first_bytes || memcmp(first, connection->answer, size)) different++;
    connection->filled = 0;
    connection->is_busy = 0;
    if (!pause_ns) ask(connection, now_ns());
}

/* Sends what is due at the pace; the nanoseconds until the next is. */
static int64_t ask_due(struct connection *connections, int count, int64_t start) {
    while (asked < wanted) {
        struct connection *next = &connections[asked % count];
        int64_t due_ns = start + asked * pause_ns, left = due_ns - now_ns();
        if (left > 0) return left;
        if (next->is_busy) break;
        ask(next, due_ns);
    }
    return 1000000000;
}

static int by_value(const void *left, const void *right) {
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

int main(int count, char **arguments) {
    struct epoll_event events[EVENTS_MAX];
    struct connection *connections;
    struct sockaddr_in address = {.sin_family = AF_INET};
    int poll = epoll_create1(0), on = 1;
    if (count != 7) return 2;
    int connection_count = atoi(arguments[3]);
    int64_t start, deadline;
    read_frame(arguments[2]);
    wanted = atol(arguments[4]);
    latencies = malloc(sizeof *latencies * (size_t)wanted);
    connections = calloc((size_t)connection_count, sizeof *connections);
    if (!latencies || !connections || poll < 0) fail("set-up");
    address.sin_port = htons((uint16_t)atoi(arguments[1]));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (int i = 0; i < connection_count; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = &connections[i]};
        connections[i].socket = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(connections[i].socket, (struct sockaddr *)&address, sizeof address)) fail("connect");
        setsockopt(connections[i].socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        if (epoll_ctl(poll, EPOLL_CTL_ADD, connections[i].socket, &event)) fail("epoll_ctl");
        /* So that the queue of new connections does not overflow: the next attempt would be a second later. */
        if (i % CONNECTIONS_AT_ONCE == CONNECTIONS_AT_ONCE - 1) usleep(CONNECT_PAUSE_US);
    }
    start = now_ns();
    deadline = start + (int64_t)atoi(arguments[5]) * 1000000000;
    if (atol(arguments[6])) pause_ns = 1000000000 / atol(arguments[6]);
    for (int i = 0; i < connection_count && !pause_ns; i++) ask(&connections[i], now_ns());
    while (answered < wanted) {
        int64_t left = pause_ns ? ask_due(connections, connection_count, start) : 1000000000;
        struct timespec patience = {.tv_sec = left / 1000000000, .tv_nsec = left % 1000000000};
        int ready = epoll_pwait2(poll, events, EVENTS_MAX, &patience, NULL);
        if (now_ns() > deadline) {
            fprintf(stderr, "%ld of %ld requests were answered in time\n", answered, wanted);
            return 1;
        }
        for (int i = 0; i < ready; i++) take(events[i].data.ptr);
    }
    double seconds = (double)(now_ns() - start) / 1e9;
    qsort(latencies, (size_t)wanted, sizeof *latencies, by_value);
    printf("{\"requests\": %ld, \"seconds\": %.6f, \"p50_us\": %.1f, \"p99_us\": %.1f, \"different\": %ld, ",
           answered, seconds, (double)latencies[wanted / 2] / 1e3, (double)latencies[wanted * 99 / 100] / 1e3,
           different);
    printf("\"first\": \"");
    for (uint32_t i = 0; i < first_bytes; i++) printf("%02x", first[i]);
    printf("\"}\n");
    return 0;
}
