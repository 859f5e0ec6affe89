/* A task that only beats: a thousand of them fit on one machine. As tests/cluster/stub_task.py, in C.
 *
 * stub CONFIG: the agent's configuration file, one JSON object, of which a few plain values are looked up.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static char text[1 << 20];

/* What follows "key": in the file, up to the end of the value; strings without their quotes. */
static void look_up(const char *key, char *out, size_t size) {
    char quoted[64];
    snprintf(quoted, sizeof quoted, "\"%s\":", key);
    const char *at = strstr(text, quoted);
    size_t length;
    if (!at) {
        fprintf(stderr, "no %s in the configuration\n", key);
        exit(3);
    }
    at += strlen(quoted);
    while (*at == ' ') at++;
    if (*at == '"') {
        at++;
        length = strcspn(at, "\"");
    } else {
        length = strcspn(at, ",} \n");
    }
    if (length >= size) length = size - 1;
    memcpy(out, at, length);
    out[length] = 0;
}

static struct sockaddr_un address_of(const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strncpy(address.sun_path, path, sizeof address.sun_path - 1);
    return address;
}

int main(int count, char **arguments) {
    char job[64], index[16], incarnation[32], beat_s[32], control[108], agent[108], note[512];
    FILE *file = count == 2 ? fopen(arguments[1], "r") : NULL;
    if (!file) return 2;
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    look_up("job", job, sizeof job);
    look_up("index", index, sizeof index);
    look_up("incarnation", incarnation, sizeof incarnation);
    look_up("beat_s", beat_s, sizeof beat_s);
    look_up("control_path", control, sizeof control);
    look_up("agent_path", agent, sizeof agent);
    int line = socket(AF_UNIX, SOCK_DGRAM, 0);
    struct sockaddr_un mine = address_of(control), its = address_of(agent);
    if (bind(line, (struct sockaddr *)&mine, sizeof mine)) return 4;
    struct timeval wait = {.tv_sec = (long)atof(beat_s), .tv_usec = (long)(atof(beat_s) * 1e6) % 1000000};
    setsockopt(line, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
    setsockopt(line, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait);
    for (long steps = 1;; steps++) {
        int length = snprintf(note, sizeof note,
                              "{\"v\": 1, \"kind\": \"beat\", \"task\": \"%s/%s\", \"incarnation\": %s, \"ready\": true, "
                              "\"steps\": %ld}",
                              job, index, incarnation, steps);
        /* An agent that is away hears the next one. */
        (void)!sendto(line, note, length, 0, (struct sockaddr *)&its, sizeof its);
        while (recv(line, note, sizeof note, 0) >= 0) {
        }
    }
}
