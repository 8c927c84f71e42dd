/*
 * notify: what a service manager is told (sd_notify), if it asked for it with NOTIFY_SOCKET.
 */
#ifndef RATION_SERVER_NOTIFY_H
#define RATION_SERVER_NOTIFY_H

/* "READY=1", or several assignments in lines. Does nothing if nobody asked. */
void ration_notify(const char *text);

#endif
