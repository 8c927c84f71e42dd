/* The smallest program: one limit, one bucket, any number of threads. */
#include <ration/ration.h>
#include <stdio.h>

int main(void)
{
    static struct ration_bucket bucket; /* all-zero bytes are a full bucket */
    struct ration_limit limit;

    if (ration_limit_parse("3/min", &limit, NULL) != RATION_OK)
        return 1;
    for (int request = 1; request <= 4; request++)
        printf("request %d: %s\n", request,
               ration_bucket_allow(&bucket, &limit) ? "allowed" : "denied");
}
