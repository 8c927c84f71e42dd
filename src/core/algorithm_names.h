/*
 * Algorithm names in the text of a limit. A burst reserve has no name: it is written as its rate.
 */
#ifndef RATION_CORE_ALGORITHM_NAMES_H
#define RATION_CORE_ALGORITHM_NAMES_H

#define RATION_ALGORITHM_WORDS(X)              \
    X("token_bucket", RATION_TOKEN_BUCKET)     \
    X("leaky_queue", RATION_LEAKY_QUEUE)       \
    X("fixed_window", RATION_FIXED_WINDOW)     \
    X("sliding_window", RATION_SLIDING_WINDOW) \
    X("sliding_log", RATION_SLIDING_LOG)

#endif
