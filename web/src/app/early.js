// Runs before the first paint: the theme that was chosen on this device.
const look = (() => {
  try {
    return JSON.parse(localStorage.getItem('drydock.v1.look')) || {};
  } catch {
    return {};
  }
})();
if (look.theme === 'light' || look.theme === 'dark') document.documentElement.dataset.theme = look.theme;
if (look.diff === 'blue') document.documentElement.dataset.diff = 'blue';
