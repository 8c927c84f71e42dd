#include "server/ops/sd_notify.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* Returns the length of the address; 0 if the path is not one of a Unix socket (vsock:) or is too long. */
static socklen_t address_of(const char *path, struct sockaddr_un *out_address)
{
    size_t size = strlen(path);

    if ((path[0] != '/' && path[0] != '@') || size >= sizeof(out_address->sun_path))
        return 0;
    *out_address = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(out_address->sun_path, path, size);
    if (path[0] == '@')
        out_address->sun_path[0] = '\0';
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + size);
}

void ration_sd_notify(const char *text)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un address;
    socklen_t size = path != NULL ? address_of(path, &address) : 0;
    int file;

    if (size == 0)
        return;
    file = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (file < 0)
        return;
    (void)!sendto(file, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT,
                  (const struct sockaddr *)&address, size);
    close(file);
}
