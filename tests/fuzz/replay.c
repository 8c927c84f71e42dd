/*
 * Runs a fuzz target on every file of the given folders, like libFuzzer with -runs=0, for builds without libFuzzer.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define INPUT_SIZE_MAX 65536

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_folder(const char *folder)
{
    DIR *directory = opendir(folder);
    struct dirent *entry;
    int count = 0;

    if (directory == NULL) {
        perror(folder);
        exit(EXIT_FAILURE);
    }
    while ((entry = readdir(directory)) != NULL) {
        static uint8_t input[INPUT_SIZE_MAX];
        char path[4096];

        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);

        FILE *file = fopen(path, "rb");

        if (file == NULL) {
            perror(path);
            exit(EXIT_FAILURE);
        }
        LLVMFuzzerTestOneInput(input, fread(input, 1, sizeof(input), file));
        fclose(file);
        count++;
    }
    closedir(directory);
    return count;
}

int main(int argument_count, char **arguments)
{
    int count = 0;

    for (int index = 1; index < argument_count; index++)
        count += replay_folder(arguments[index]);
    printf("%d inputs replayed\n", count);
    return count > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
