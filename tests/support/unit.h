/* Included by every unit test: cmocka and the headers that it requires. */
#ifndef RATION_TESTS_UNIT_H
#define RATION_TESTS_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#endif
