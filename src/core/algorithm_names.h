/*
 * Algorithm names in the text of a limit. A burst reserve has no name: it is written as its rate.
 */
#ifndef RATION_CORE_ALGORITHM_NAMES_H
#define RATION_CORE_ALGORITHM_NAMES_H

#define RATION_ALGORITHM_WORDS(X)              \
    X("token-bucket", RATION_TOKEN_BUCKET)     \
    X("leaky-queue", RATION_LEAKY_QUEUE)       \
    X("fixed-window", RATION_FIXED_WINDOW)     \
    X("sliding-window", RATION_SLIDING_WINDOW) \
    X("sliding-log", RATION_SLIDING_LOG)

#endif
