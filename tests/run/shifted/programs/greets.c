/* Greets whoever connects to the port that its argument names, and leaves when he says something. */
#include <arpa/inet.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

int main(int argc, char **argv) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int yes = 1, door = socket(AF_INET, SOCK_STREAM, 0);
    at.sin_port = htons(argc > 1 ? (unsigned short)atoi(argv[1]) : 0);
    setsockopt(door, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(door, (struct sockaddr *)&at, sizeof at) || listen(door, 16)) return 1;
    for (;;) {
        int client = accept(door, 0, 0);
        char said[512];
        if (client < 0) continue;
        if (write(client, "220 hello\r\n", 11) == 11 && read(client, said, sizeof said) < 0) return 1;
        close(client);
    }
}
