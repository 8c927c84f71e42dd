/*
 * reload: a new policy for a server that runs.
 *
 * Whole and valid or not at all. SIGHUP asks for it on loop 0, which must not wait: a thread of its own
 * does it. Services call ration_service's reload() themselves. One reload at a time; others wait.
 */
#ifndef RATION_SERVER_RELOAD_H
#define RATION_SERVER_RELOAD_H

#include "server/service.h"

struct ration_reloader;

/*
 * Starts the thread and puts reload() into service. given is what the command line said, and settings what
 * the server was started with; both are borrowed. *out_reloader is released with
 * ration_reloader_free(). Returns RATION_ENOMEM.
 */
ration_status ration_reloader_create(struct ration_service *service,
                                     const struct ration_settings *given,
                                     struct ration_reloader **out_reloader);

/* Has the thread reload, soon. Any thread; several requests before it begins are one. */
void ration_reloader_ask(struct ration_reloader *reloader);

/* Waits for a reload that has begun. NULL is fine. */
void ration_reloader_free(struct ration_reloader *reloader);

#endif
