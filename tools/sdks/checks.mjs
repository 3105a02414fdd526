// Runs checks by their names, one line each; ends with status 1 when one failed.
export const run = async (checks) => {
  let failed = 0;
  for (const [name, check] of Object.entries(checks)) {
    try {
      await check();
      console.log(`ok ${name}`);
    } catch (error) {
      failed += 1;
      console.log(`FAILED ${name}: ${error?.stack ?? error}`);
    }
  }
  process.exit(failed ? 1 : 0);
};
