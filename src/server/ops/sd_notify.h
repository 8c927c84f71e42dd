/*
 * sd_notify: reports the server's state to systemd, if systemd has set NOTIFY_SOCKET.
 */
#ifndef RATION_SERVER_OPS_SD_NOTIFY_H
#define RATION_SERVER_OPS_SD_NOTIFY_H

/* text is "READY=1", or several such lines. Does nothing without NOTIFY_SOCKET; errors are ignored. */
void ration_sd_notify(const char *text);

#endif
