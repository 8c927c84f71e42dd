/*
 * version: of these headers, as numbers, and of the library that is linked, as text.
 *
 *     printf("compiled for %d.%d, running with %s\n", RATION_VERSION_MAJOR, RATION_VERSION_MINOR, ration_version());
 */
#ifndef RATION_VERSION_H
#define RATION_VERSION_H

#include "ration/export.h"

RATION_C_BEGIN

/* The build reads the version from here. */
#define RATION_VERSION_MAJOR 0
#define RATION_VERSION_MINOR 1
#define RATION_VERSION_PATCH 0

/* Returns the version of the linked library, "major.minor.patch". Static storage. */
RATION_API const char *ration_version(void);

RATION_C_END

#endif
